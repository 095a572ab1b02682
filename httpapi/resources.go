package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/exports"
)

// Resources are the records that a request names, in its path and its body. They need not
// exist.
type Resources struct {
	FolderIDs   []int64
	SymbolIDs   []int64
	Sources     []string // source URLs as they are looked up, without unusable ones
	ExportedURL string   // of a registration
}

// RequestResources returns what a request names, for [Options.Authorize]: the rules of an
// application need not parse bodies. For a download link the sources are those of its
// plan. It may read the body, which the API still gets. Authorize must return its error,
// which is the response to a body that is malformed or too large.
func RequestResources(r *http.Request) (Resources, error) {
	c := callOf(r.Context())
	if c == nil {
		return Resources{}, errors.New("httpapi: not a request to an API")
	}
	return c.resources()
}

// resourcesError is an error of RequestResources.
type resourcesError struct{ error }

func (e *resourcesError) Unwrap() error { return e.error }

func (c *call) resources() (out Resources, err error) {
	if c.link != nil {
		link, err := c.loadPlan(c.detached(), c.link)
		if err != nil {
			return Resources{}, &resourcesError{err}
		}
		for _, source := range link.Sources { // as sent, unusable ones included
			out.addSource(c.api.options.Exports, source)
		}
		return out, nil
	}
	if id, err := c.pathID(); err == nil {
		switch resourceKind(c.route) {
		case "folder":
			out.FolderIDs = []int64{id}
		case "symbol":
			out.SymbolIDs = []int64{id}
		}
	}
	hasBody := c.r.Method == http.MethodPost || c.r.Method == http.MethodPatch
	if !hasBody || strings.HasSuffix(c.route, "/import") || c.body.call == nil {
		return out, nil
	}
	if err := out.addBody(c); err != nil {
		return Resources{}, &resourcesError{err}
	}
	return out, nil
}

// addBody adds what the body names. The endpoint reads it again. Fields of another type
// than the endpoint accepts are left to it.
func (r *Resources) addBody(c *call) (err error) {
	if c.body.text, err = c.readBody(isJSON, errMediaType, decodeFactor); err != nil {
		return err
	}
	var in struct {
		FolderID      jsontext.Value `json:"folderId"`
		IDs           jsontext.Value `json:"ids"`
		SourceFileURL sourceText     `json:"sourceFileUrl"`
		ExportedURL   jsontext.Value `json:"exportedUrl"`
		Items         jsontext.Value `json:"items"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	var folderID int64
	if json.Unmarshal(in.FolderID, &folderID) == nil && in.FolderID.Kind() == '0' {
		r.FolderIDs = append(r.FolderIDs, folderID)
	}
	var list ids // the endpoint rejects a longer one
	if json.Unmarshal(in.IDs, &list) == nil {
		r.SymbolIDs = append(r.SymbolIDs, list...)
	}
	json.Unmarshal(in.ExportedURL, &r.ExportedURL)
	r.ExportedURL = strings.TrimSpace(r.ExportedURL)
	if service := c.api.options.Exports; service != nil {
		r.addSource(service, string(in.SourceFileURL))
		items := exportEndpoints{all: service}.items()
		json.Unmarshal(in.Items, &items) // the endpoint rejects those that it does not decode
		for _, item := range items.list {
			r.addSource(service, string(item.SourceFileURL))
		}
	}
	return nil
}

func (r *Resources) addSource(service *exports.Service, source string) {
	if key, err := service.SourceKey(source); err == nil {
		r.Sources = append(r.Sources, key)
	}
}
