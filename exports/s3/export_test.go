package s3

import "net/http"

// Sign signs a request as Open does.
func (o *Opener) Sign(r *http.Request) error { return o.signer.sign(r) }
