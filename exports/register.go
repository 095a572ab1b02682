package exports

import (
	"context"
	"net/url"
	"strings"
)

// Registration is the input of [Service.Register].
type Registration struct {
	// White space around the URLs is removed.
	SourceURL   string
	ExportedURL string

	// FileName is stored as given and cleaned when it is used. Nil keeps the
	// previous one; empty or only white space means none.
	FileName *string

	By      string // see RegisteredBy of [Export]
	OwnOnly bool   // return [ErrNotOwner] rather than replace the export of another
}

// validate returns the export of a registration without times, and its parsed URL.
func (r Registration) validate() (export Export, u *url.URL, err error) {
	if export.SourceURL, err = checkSource("sourceFileUrl", r.SourceURL); err != nil {
		return Export{}, nil, err
	}
	export.ExportedURL = strings.TrimSpace(r.ExportedURL)
	if u, err = parseExported(export.ExportedURL); err != nil {
		return Export{}, nil, err
	}
	if r.FileName != nil {
		if err := checkText("fileName", *r.FileName); err != nil {
			return Export{}, nil, err
		}
		if strings.TrimSpace(*r.FileName) != "" {
			export.FileName = *r.FileName
		}
	}
	export.RegisteredBy = r.By
	return export, u, checkText("registeredBy", r.By)
}

// Register registers the export of a source in place of a previous one; created reports
// that there was none. The error matches [ErrInvalid] if a field is invalid or the
// exported URL may not be opened.
func (s *Service) Register(ctx context.Context, r Registration) (export Export, created bool, err error) {
	export, u, err := r.validate()
	if err != nil {
		return Export{}, false, err
	}
	if err := s.checkAllowed(u); err != nil {
		return Export{}, false, err
	}
	export.CreatedAt = s.now()
	export.UpdatedAt = export.CreatedAt
	export, created, err = s.store.Put(ctx, export, PutRule{KeepName: r.FileName == nil, OwnOnly: r.OwnOnly})
	return export, created, storeError("put export", err)
}
