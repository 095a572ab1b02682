package exports

import "context"

// Check is what [Service.Check] found.
type Check struct {
	File           // as a download has it, without Body
	Resumable bool // a link to the file alone delivers ranges
}

// Check opens the file of an export as a download does, reads up to n bytes of it,
// and closes it. Its errors are those of [Service.Open].
func (s *Service) Check(ctx context.Context, export Export, n int) (Check, error) {
	download, err := s.Open(ctx, export)
	if err != nil {
		return Check{}, err
	}
	defer download.Close()
	if err := download.Prefetch(n); err != nil {
		return Check{}, err
	}
	check := Check{File: download.File}
	check.Body = nil
	if _, opener, err := s.locate(export.ExportedURL); err == nil && check.Validator != "" && check.Size >= 0 {
		_, check.Resumable = opener.(RangeOpener)
	}
	return check, nil
}
