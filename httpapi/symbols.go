package httpapi

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/ranges"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

type symbolEndpoints struct {
	all    *symbols.Service
	bodies *bodies.Library
	limits bundle.Limits // of imports
}

func folderReply(folder symbols.Folder, err error) (reply, error) {
	return reply{
		body:    bodies.AppendFolder(nil, folder),
		version: folder.Version,
		created: Resource{Kind: "folder", ID: folder.ID},
	}, err
}

func symbolReply(symbol symbols.Symbol, err error) (reply, error) {
	return reply{
		body:    bodies.AppendFields(nil, symbol, bodies.AllFields),
		version: symbol.Version,
		created: Resource{Kind: "symbol", ID: symbol.ID},
	}, err
}

func (e symbolEndpoints) listFolders(c *call) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return e.send(c, bodies.Key{Kind: bodies.Folders, Range: symbols.Range(page)})
}

func (e symbolEndpoints) listSymbols(c *call) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	fields, err := c.fields()
	if err != nil {
		return err
	}
	return e.send(c, bodies.Key{Kind: bodies.Contents, ID: c.id, Range: symbols.Range(page), Fields: fields})
}

// get returns the endpoint of a folder, a symbol or its image.
func (e symbolEndpoints) get(kind bodies.Kind) endpoint {
	return func(c *call) error {
		key := bodies.Key{Kind: kind, ID: c.id}
		if kind == bodies.Symbol {
			var err error
			if key.Fields, err = c.fields(); err != nil {
				return err
			}
		}
		return e.send(c, key)
	}
}

// send responds with the current body of a key, or 304 if the client has it.
func (e symbolEndpoints) send(c *call, key bodies.Key) error {
	if key.Kind != bodies.Image {
		key.Gzip = c.compressible()
	}
	key.Tenant = c.tenant
	c.api.loadSearchIndex()
	view := c.view(key)
	noneMatch := ranges.ParseTags(c.r.Header["If-None-Match"])
	known := func(version symbols.Version) bool { return knownTag(noneMatch, version, view) != "" }
	body, err := e.bodies.Get(c.detached(), key, known, &bodyMemory{call: c})
	if err != nil {
		return err
	}
	defer body.Release()
	if key.Kind == bodies.Image { // pages of other origins show it, with a token in its URL
		c.w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	if body.Current {
		c.setTag(knownTag(noneMatch, body.Version, view))
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if body.Next > 0 {
		c.setLink(key.Range.Limit, body.Next)
	}
	t := tag{version: body.Version, view: view, gzip: body.Gzip, unique: uint64(body.Next)} // a page may end early
	if !body.Settled {
		t.unique = rand.Uint64() // another response with this version may differ
	}
	c.setTag(t.String())
	return c.sendBody(body)
}

type createFolderRequest struct {
	Name string `json:"name"`
}

func (e symbolEndpoints) createFolder(ctx context.Context, c *call, in createFolderRequest) (reply, error) {
	return folderReply(e.all.Tenant(c.tenant).CreateFolder(ctx, in.Name))
}

type updateFolderRequest struct {
	Name optional[string] `json:"name"`
}

func (e symbolEndpoints) updateFolder(ctx context.Context, c *call, in updateFolderRequest) (reply, error) {
	return folderReply(e.all.Tenant(c.tenant).UpdateFolder(ctx, c.id, in.Name.pointer(), c.ifMatch()))
}

func (e symbolEndpoints) deleteFolder(_ context.Context, c *call) (reply, error) {
	return c.slowly(func(ctx context.Context) (reply, error) {
		return messageReply("Folder deleted.", e.all.Tenant(c.tenant).DeleteFolder(ctx, c.id, c.ifMatch(), c.keyID))
	})
}

type createSymbolRequest struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Data string `json:"data"`
	detailsRequest
}

func (e symbolEndpoints) createSymbol(ctx context.Context, c *call, in createSymbolRequest) (reply, error) {
	tags, meta, err := in.details()
	if err != nil {
		return reply{}, err
	}
	return symbolReply(e.all.Tenant(c.tenant).CreateSymbol(ctx, c.id, symbols.NewSymbol{
		Name: in.Name,
		Type: in.Type,
		Data: in.Data,
		Tags: *cmp.Or(tags, new(symbols.Tags)),
		Meta: *cmp.Or(meta, new(string)),
		By:   c.keyID,
	}))
}

// detailsRequest are the fields of a symbol beyond those of its record.
type detailsRequest struct {
	Tags optional[*texts]          `json:"tags"`
	Meta optional[*jsontext.Value] `json:"meta"`
}

// details returns the tags and the meta of a request; nil if they are absent.
func (in detailsRequest) details() (tags *symbols.Tags, meta *string, err error) {
	tags, err = parseGiven(in.Tags, func(list texts) (symbols.Tags, error) { return symbols.NewTags(list...) })
	if err == nil {
		meta, err = parseGiven(in.Meta, func(value jsontext.Value) (string, error) { return symbols.ParseMeta(value) })
	}
	return tags, meta, err
}

type updateSymbolRequest struct {
	Name     optional[string] `json:"name"`
	Type     optional[string] `json:"type"`
	Data     optional[string] `json:"data"`
	FolderID optional[int64]  `json:"folderId"`
	detailsRequest
}

// updateSymbol reserves memory for the symbol that the store reads, and its JSON.
func (e symbolEndpoints) updateSymbol(c *call) error {
	var in updateSymbolRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	c.touch("folder", in.FolderID.list()...)
	tags, meta, err := in.details()
	if err != nil {
		return err
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	info, err := e.all.Tenant(c.tenant).GetSymbolInfo(ctx, c.id)
	if err != nil && !errors.Is(err, symbols.ErrSymbolNotFound) { // invalid fields come first
		return err
	}
	if err := c.reserve(c.memory.Size() + 2*info.Size); err != nil {
		return err
	}
	return c.respond(http.StatusOK, func(ctx context.Context) (reply, error) {
		return symbolReply(e.all.Tenant(c.tenant).UpdateSymbol(ctx, c.id, symbols.SymbolFields{
			Name:     in.Name.pointer(),
			Type:     in.Type.pointer(),
			Data:     in.Data.pointer(),
			FolderID: in.FolderID.pointer(),
			Tags:     tags,
			Meta:     meta,
			By:       c.keyID,
		}, c.ifMatch()))
	})
}

func (e symbolEndpoints) deleteSymbol(ctx context.Context, c *call) (reply, error) {
	return messageReply("Symbol deleted.", e.all.Tenant(c.tenant).DeleteSymbol(ctx, c.id, c.ifMatch(), c.keyID))
}
