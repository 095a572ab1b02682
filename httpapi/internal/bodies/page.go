package bodies

import (
	"cmp"
	"context"
	"fmt"

	"example.com/canvasback/symbols"
)

// page has some records of a list as JSON, or a single record. The first one of a list
// begins with the bracket, and the last one ends with it.
type page struct {
	version symbols.Version
	data    []byte
	image   ImageInfo
	records int
	last    int64 // id of the last record
	follows bool  // whether records follow
	more    bool  // whether the next page has some of them
}

// next returns what follows the page that begins a range.
func (p *page) next(r symbols.Range) symbols.Range {
	return symbols.Range{After: p.last, Limit: r.Limit - min(r.Limit, p.records)}
}

const listEnd = "]"

// page reads and encodes the start of a range of a list, or another body. Before it reads
// much data, which has the given size if it is that of a single symbol, it calls grow.
func (l *Library) page(ctx context.Context, key Key, r symbols.Range, size int64, grow func(size int64) error) (*page, error) {
	const factor = 2 // the data, and the JSON
	reserve := func(size int64) error { return grow(factor * size) }
	if err := reserve(size); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	select {
	case l.reads <- struct{}{}:
		defer func() { <-l.reads }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", symbols.ErrUnavailable, ctx.Err())
	}
	p := &page{last: r.After}
	if key.isList() && r == key.Range {
		p.data = []byte{'['}
	}
	err := l.read(ctx, key, r, p, reserve)
	if err != nil {
		return nil, err
	}
	p.more = p.follows && (r.Limit == 0 || p.records < r.Limit)
	if key.isList() && !p.more {
		p.data = append(p.data, listEnd...)
	}
	return p, nil
}

func (l *Library) read(ctx context.Context, key Key, r symbols.Range, p *page, reserve func(size int64) error) error {
	service := l.service.Tenant(key.Tenant)
	switch key.Kind {
	case Folders:
		const most = 1000
		list, err := service.ListFolders(ctx, symbols.Range{After: r.After, Limit: min(cmp.Or(r.Limit, most), most)})
		p.version, p.follows = list.Version, list.More
		for _, folder := range list.Folders {
			p.data = AppendFolder(p.begin(folder.ID), folder)
		}
		return err
	case Contents:
		if key.Fields.InInfo() {
			list, err := service.ListSymbolInfos(ctx, key.ID, r)
			p.version, p.follows = list.Version, list.More
			for _, info := range list.Symbols {
				p.data = AppendInfo(p.begin(info.ID), info, key.Fields)
			}
			return err
		}
		list, err := service.ListSymbolsFunc(ctx, key.ID, r, reserve, key.Fields&detailFields != 0)
		p.version, p.follows = list.Version, list.More
		size := 0
		for _, symbol := range list.Symbols {
			size += encodedSize(symbol.Name, symbol.Type, symbol.Data)
		}
		p.data = append(make([]byte, 0, size+len("[]")), p.data...)
		for i, symbol := range list.Symbols {
			p.data = appendFields(p.begin(symbol.ID), &list.Symbols[i], int64(len(symbol.Data)), key.Fields)
		}
		return err
	case Folder:
		folder, err := service.GetFolder(ctx, key.ID)
		p.version, p.data = folder.Version, AppendFolder(nil, folder)
		return err
	default:
		symbol, err := service.GetSymbol(ctx, key.ID)
		p.version = symbol.Version
		if key.Kind == Image {
			p.data, p.image = image(symbol)
		} else {
			p.data = AppendFields(nil, symbol, key.Fields)
		}
		return err
	}
}

// begin begins a record and returns the data to append it to.
func (p *page) begin(id int64) []byte {
	isFirst := p.records == 0 && string(p.data) == "["
	p.records, p.last = p.records+1, id
	if isFirst {
		return p.data
	}
	return append(p.data, ',')
}
