package httpapi

import (
	"cmp"
	"context"
	"io"
	"math"
)

// pages is a list of records that the store returns in pages.
type pages[Record any] struct {
	read   func(ctx context.Context, selected page) (list []Record, more bool, err error)
	append func(dst []byte, record Record) []byte // as JSON
	id     func(Record) int64
	size   func(Record) int64 // with its JSON, in bytes, at most
	atOnce int                // records that are read at a time
	limit  int                // of a request without one; 0 if it gets all
}

// sendPages responds with the page of the parameters limit and after, which may take
// several of the store. Without limit it writes all pages as they are read, so that a long
// list takes no more memory than a page.
func sendPages[Record any](c *call, p pages[Record]) error {
	selected, err := c.page()
	if err != nil {
		return err
	}
	limit := cmp.Or(selected.Limit, p.limit)
	left := cmp.Or(limit, math.MaxInt)
	separator := byte('[')
	size := int64(0)
	more := true
	next := func(dst []byte) ([]byte, error) {
		ctx, cancel := c.storeContext()
		defer cancel()
		var list []Record
		selected.Limit = min(p.atOnce, left)
		if list, more, err = p.read(ctx, selected); err != nil {
			return nil, err
		}
		for _, record := range list {
			size += p.size(record)
		}
		if err := c.count(size); err != nil {
			return nil, err
		}
		for _, record := range list {
			dst = p.append(append(dst, separator), record)
			separator, selected.After = ',', p.id(record)
		}
		if left -= len(list); left == 0 || !more {
			dst = closeList(dst, separator)
		}
		return dst, nil
	}
	body, err := next(nil)
	for err == nil && more && left > 0 && limit > 0 {
		body, err = next(body)
	}
	switch {
	case err != nil:
		return err
	case !more:
		return c.sendCompressible(body)
	case limit > 0:
		c.setLink(limit, selected.After)
		return c.sendCompressible(body)
	}
	return c.streamJSON(func(w io.Writer) error {
		for {
			if _, err := w.Write(body); err != nil || !more {
				return err
			}
			size = 0
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
