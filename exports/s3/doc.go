// Package s3 opens exported files in Amazon S3 and compatible object stores.
//
// Clients register the URL of an object in one of these forms; all of them are
// opened at [Options.Endpoint] with its credentials:
//
//	s3://bucket/key
//	https://endpoint/bucket/key
//	https://bucket.endpoint/key
//
// With [Options.AllowVersions] the URL may have the parameter versionId. Others are
// rejected, because they select something else than the object, such as its access
// control list. The key is percent-decoded: write # as %23, ? as %3F and % as %25. A plus
// sign stands for itself. Keys with a segment "." or ".." are rejected, because gateways
// and proxies may take them for another bucket or prefix.
//
// Only objects of [Options.Buckets] are opened. Every client that may register
// exports can download all of these, so name prefixes. Package fetch sends the
// requests: they are retried, resumed and verified as described there, but no
// redirect is followed and no other host is contacted.
//
// # Presigned URLs
//
// [Opener.PublicURL] returns a URL that carries its own, limited authorization. It
// makes the Opener an [exports.Presigner].
//
// A registered URL that is already presigned does not belong to this Opener: it
// needs none of its credentials. Package fetch opens it.
//
// # Credentials
//
// The provider is asked for credentials for each attempt, so rotated ones are used
// at once. Wrap a provider that makes requests, such as those of roles, in an
// aws.CredentialsCache. Config.Credentials of the AWS SDK's module config is such a
// provider, as examples/standalone shows. This package does not import that module.
package s3
