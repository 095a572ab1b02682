package httpapi

import (
	"cmp"
	"context"
	"io"
)

// pages is a list of records that the store returns in pages.
type pages[Record any] struct {
	read   func(ctx context.Context, selected page) (list []Record, more bool, err error)
	append func(dst []byte, record Record) []byte // as JSON
	id     func(Record) int64
	size   int64 // of a record with its JSON, in bytes, at most
}

// sendPages responds with the page of the parameters limit and after. Without limit it
// writes all pages as they are read, so that a long list takes no more memory than a page.
func sendPages[Record any](c *call, p pages[Record]) error {
	selected, err := c.page()
	if err != nil {
		return err
	}
	limited := selected.Limit > 0
	selected.Limit = cmp.Or(selected.Limit, maxPageSize)
	separator := byte('[')
	more := true
	next := func(dst []byte) ([]byte, error) {
		ctx, cancel := c.storeContext()
		defer cancel()
		var list []Record
		if list, more, err = p.read(ctx, selected); err != nil {
			return nil, err
		}
		if err := c.count(p.size * int64(len(list))); err != nil {
			return nil, err
		}
		for _, record := range list {
			dst = p.append(append(dst, separator), record)
			separator, selected.After = ',', p.id(record)
		}
		if limited || !more {
			dst = closeList(dst, separator)
		}
		return dst, nil
	}
	body, err := next(nil)
	switch {
	case err != nil:
		return err
	case !more:
		return c.sendCompressible(body)
	case limited:
		c.setLink(selected.Limit, selected.After)
		return c.sendCompressible(body)
	}
	return c.streamJSON(func(w io.Writer) error {
		for {
			if _, err := w.Write(body); err != nil || !more {
				return err
			}
			if body, err = next(body[:0]); err != nil {
				return err
			}
		}
	})
}

// closeList ends a list of records, of which the next would have had a separator.
func closeList(dst []byte, separator byte) []byte {
	if separator == '[' {
		dst = append(dst, '[')
	}
	return append(dst, ']')
}
