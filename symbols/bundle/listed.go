package bundle

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"example.com/canvasback/symbols"
)

// findManifest returns the manifest of a bundle, or nil for a plain zip.
func (r *reader) findManifest() *zip.File {
	var inDirectory *zip.File
	for _, entry := range r.entries {
		directory, base := path.Split(entry.Name)
		switch {
		case base != manifestName:
		case directory == "":
			return entry
		case inDirectory == nil && strings.Count(directory, "/") == 1:
			inDirectory = entry
		}
	}
	return inDirectory
}

// readBundle takes the files that a manifest lists.
func (r *reader) readBundle(ctx context.Context, manifest *zip.File) error {
	list, err := r.listOf(manifest)
	if err != nil {
		return r.take(manifest.Name, symbols.NewSymbol{}, err)
	}
	unread := make(map[string]*zip.File, len(r.entries)) // nil once they are read
	for _, entry := range r.entries {
		if _, known := unread[entry.Name]; known || entry != manifest && entry.Name == manifest.Name {
			r.refuse(entry.Name, "more than one file has this name")
		} else if entry != manifest {
			unread[entry.Name] = entry
		}
	}
	directory := strings.TrimSuffix(manifest.Name, manifestName)
	for _, listed := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := directory + listed.File
		symbol, err := r.listed(unread, name, listed)
		if err := r.take(name, symbol, err); err != nil {
			return err
		}
	}
	for _, entry := range r.entries {
		if unread[entry.Name] == entry && !r.ignores(entry) {
			r.refuse(entry.Name, "not listed in "+manifestName)
		}
	}
	return nil
}

// listOf returns the list of a manifest.
func (r *reader) listOf(manifest *zip.File) ([]manifestSymbol, error) {
	text, err := r.expand(manifest, int64(r.limits.Entries+1)*maxManifest)
	if err != nil {
		return nil, err
	}
	list, err := readManifest(text, r.limits.Entries)
	if err == nil && len(list) > r.limits.Entries {
		err = tooManyEntries(r.limits.Entries)
	}
	return list, err
}

// listed returns the symbol of a file if that is as the manifest says.
func (r *reader) listed(unread map[string]*zip.File, name string, listed manifestSymbol) (symbols.NewSymbol, error) {
	entry, known := unread[name]
	switch {
	case !known:
		return symbols.NewSymbol{}, refusal("not in the zip, but listed in " + manifestName)
	case entry == nil:
		return symbols.NewSymbol{}, refusal("listed more than once in " + manifestName)
	}
	unread[name] = nil
	file, err := r.expand(entry, r.limits.Symbol)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	digest := sha256.Sum256(file)
	switch {
	case int64(len(file)) != listed.Size:
		return symbols.NewSymbol{}, refusal("changed: its size is not the one in " + manifestName)
	case hex.EncodeToString(digest[:]) != listed.SHA256:
		return symbols.NewSymbol{}, refusal("changed: its SHA-256 is not the one in " + manifestName)
	}
	return symbols.NewSymbol{Name: listed.Name, Type: listed.Type, Data: string(listed.around(file))}, nil
}
