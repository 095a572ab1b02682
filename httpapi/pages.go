package httpapi

import (
	"cmp"
	"context"
	"io"
	"math"
	"slices"
)

// pages is a list of records that the store returns in pages.
type pages[Record any] struct {
	read         func(ctx context.Context, selected page) (list []Record, more bool, err error)
	append       func(dst []byte, record *Record) []byte // as JSON
	id           func(*Record) int64
	size         func(*Record) int64 // with its JSON, in bytes, at most
	atOnce       int                 // records that are read at a time
	defaultLimit int                 // of a request without one; 0 if it gets all
}

// sendPages responds with the page of the parameters limit and after, which may take
// several of the store. Without limit it writes all pages as they are read, so that a long
// list takes no more memory than a page.
func sendPages[Record any](c *call, p pages[Record]) error {
	selected, err := c.page()
	if err != nil {
		return err
	}
	limit := cmp.Or(selected.Limit, p.defaultLimit)
	left := cmp.Or(limit, math.MaxInt)
	separator := byte('[')
	more := true
	next := func(dst []byte) ([]byte, error) {
		ctx, cancel := c.storeContext()
		defer cancel()
		for size := int64(0); ; {
			selected.Limit = min(p.atOnce, left)
			list, follow, err := p.read(ctx, selected)
			if err != nil {
				return nil, err
			}
			for i := range list {
				size += p.size(&list[i])
			}
			if err := c.count(size); err != nil {
				return nil, err
			}
			start := len(dst)
			for i := range list {
				dst = p.append(append(dst, separator), &list[i])
				separator, selected.After = ',', p.id(&list[i])
				if i == 0 { // the others are about as long
					dst = slices.Grow(dst, min(int(size), (len(dst)-start)*len(list)*9/8))
				}
			}
			left -= len(list)
			if more = follow && len(list) > 0; !more || left == 0 {
				return closeList(dst, separator), nil
			}
			if limit == 0 {
				return dst, nil
			}
		}
	}
	body, err := next(nil)
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
