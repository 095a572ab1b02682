package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/stream"
)

type exportEndpoints struct {
	all     *exports.Service
	ownOnly bool // a client key registers only exports that are its own
	tenants bool // with Options.Tenant
}

type singleExportRequest struct {
	SourceFileURL string `json:"sourceFileUrl"`
	FileName      string `json:"fileName"`
}

type singleExportURLResponse struct {
	Success     bool   `json:"success"`
	ExportedURL string `json:"exportedUrl"`
}

func (e exportEndpoints) download(c *call) error {
	urls, err := c.wantsURLs()
	if err != nil {
		return err
	}
	var in singleExportRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	if err := c.settle(int64(len(in.SourceFileURL) + len(in.FileName))); err != nil {
		return err
	}
	item, err := e.find(c, in)
	if err != nil {
		return err
	}
	service := e.all.Tenant(c.tenant)
	if urls {
		public, err := service.PublicURL(c.r.Context(), item, c.privateURL(service))
		if err != nil {
			return err
		}
		return c.encode(http.StatusOK, singleExportURLResponse{Success: true, ExportedURL: public})
	}
	download, err := service.Open(c.r.Context(), item.Named())
	if err != nil {
		return err
	}
	defer download.Close()
	return c.sendFile(download)
}

// find returns the item of a request for one file, with its export.
func (e exportEndpoints) find(c *call, in singleExportRequest) (_ exports.BatchItem, err error) {
	items := []exports.BatchItem{{SourceURL: in.SourceFileURL, FileName: in.FileName}}
	c.items = items
	if err = c.permitItems(e.all, items); err != nil {
		return items[0], err
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	if items[0], err = e.all.Tenant(c.tenant).FindItem(ctx, items[0]); err == nil {
		e.all.Tenant(c.tenant).Resolve(c.r.Context(), items)
	}
	return items[0], cmp.Or(err, items[0].Err)
}

// findBatch returns the items of a request with their exports.
func (e exportEndpoints) findBatch(c *call, items []exports.BatchItem) ([]exports.BatchItem, error) {
	c.items = items
	if err := c.permitItems(e.all, items); err != nil {
		return nil, err
	}
	const many = 100
	err := c.inTurn(len(items) > many, func() (err error) {
		ctx, cancel := c.storeContext()
		defer cancel()
		if items, err = e.all.Tenant(c.tenant).FindBatch(ctx, items); err != nil {
			return err
		}
		c.items = items
		return c.countItems(items)
	})
	if err != nil {
		return nil, err
	}
	e.all.Tenant(c.tenant).Resolve(c.r.Context(), items)
	return items, c.countItems(items)
}

// permitItems checks that the page token of the request, if it has one, is for the
// exports of the sources. Each is compared as it is looked up; unusable ones are not.
func (c *call) permitItems(service *exports.Service, items []exports.BatchItem) error {
	if c.key.Token == nil || c.key.Token.Sources == nil {
		return nil
	}
	permitted := make(map[string]bool)
	for _, source := range c.key.Token.Sources {
		if source, err := service.SourceKey(source); err == nil {
			permitted[source] = true
		}
	}
	for _, item := range items {
		if source, err := service.SourceKey(item.SourceURL); err == nil && !permitted[source] {
			const message = "this page token is not for the source %s"
			return &DeniedError{Message: fmt.Sprintf(message, source), cause: fmt.Errorf(message, exports.RedactURL(source))}
		}
	}
	return nil
}

// sendFile responds with a file. Its content type is never JSON, so that no
// client takes it for a response of the API.
func (c *call) sendFile(download *exports.Download) error {
	if err := download.Prefetch(prefetchBytes); err != nil {
		return err
	}
	header := c.w.Header()
	if !download.Modified.IsZero() && download.Modified.Before(time.Now()) { // RFC 9110, section 8.8.2.1
		header.Set("Last-Modified", download.Modified.UTC().Format(http.TimeFormat))
	}
	if download.ETag != "" {
		header.Set("ETag", download.ETag)
	}
	size := download.Size
	return c.sendAttachment(downloadContentType(download.Type), download.Name, size, func(out *stream.Writer) error {
		n, err := out.Copy(download.Body, size)
		if err == nil && size >= 0 && n != size {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// prefetchBytes is how much of a file is read before the response begins. It
// does not delay the client, because net/http buffers as much.
const prefetchBytes = 4 << 10

// downloadContentType returns the Content-Type of a download: that of the file
// unless it is invalid or JSON.
func downloadContentType(contentType string) string {
	const unknown = "application/octet-stream"
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.Contains(mediaType, "/") || strings.HasSuffix(mediaType, "json") {
		return unknown
	}
	return contentType
}

// exportItems are the items of a request, one more than max if there are too many.
type exportItems struct {
	list []exportItem
	max  int
}

func (e exportEndpoints) items() exportItems { return exportItems{max: e.all.MaxItems()} }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (i *exportItems) UnmarshalJSONFrom(dec *jsontext.Decoder) (err error) {
	i.list, err = decodeList[exportItem](dec, i.max)
	return err
}

type exportItem struct {
	SourceFileURL sourceText `json:"sourceFileUrl"`
	Path          string     `json:"path"`
	FileName      string     `json:"fileName"`
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom]. An item that is no object is
// skipped like one without a source.
func (i *exportItem) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	type object exportItem
	return json.UnmarshalDecode(dec, (*object)(i))
}

// sourceText is a source URL, empty if the value is no string.
type sourceText string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (s *sourceText) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '"' {
		return dec.SkipValue()
	}
	return json.UnmarshalDecode(dec, (*string)(s))
}

// batch returns the items, and the size of their texts in bytes.
func (in exportItems) batch() (items []exports.BatchItem, size int64) {
	items = make([]exports.BatchItem, len(in.list))
	for i, item := range in.list {
		items[i] = exports.BatchItem{SourceURL: string(item.SourceFileURL), Path: item.Path, FileName: item.FileName}
		size += int64(len(item.SourceFileURL) + len(item.Path) + len(item.FileName))
	}
	return items, size
}

type batchExportURLsResponse struct {
	Success      bool          `json:"success"`
	ExportedURLs []string      `json:"exportedUrls"`
	Skipped      []skippedItem `json:"skipped"`
}

func (e exportEndpoints) downloadBatch(c *call) error {
	urls, err := c.wantsURLs()
	if err != nil {
		return err
	}
	in := struct {
		Items exportItems `json:"items"`
	}{e.items()}
	if err := c.decode(&in); err != nil {
		return err
	}
	items, size := in.Items.batch()
	if err := c.settle(size); err != nil {
		return err
	}
	if items, err = e.findBatch(c, items); err != nil {
		return err
	}
	if urls {
		service := e.all.Tenant(c.tenant)
		private := c.privateURL(service)
		list, skipped, err := service.PublicURLs(c.r.Context(), items, private)
		if err != nil {
			return err
		}
		c.logSkipped(http.StatusOK, skipped)
		return c.encode(http.StatusOK, batchExportURLsResponse{Success: true, ExportedURLs: list, Skipped: skippedItems(skipped)})
	}
	batch, err := e.all.Tenant(c.tenant).OpenBatch(c.r.Context(), items)
	if err != nil {
		return err
	}
	defer batch.Close()
	return c.sendAttachment("application/zip", exports.BatchName, batch.Size(), func(out *stream.Writer) error {
		err := batch.WriteZip(out, out.Flush)
		c.logSkipped(http.StatusOK, batch.Skipped())
		return err
	})
}

// wantsURLs reports whether the parameter responseType is "urls".
func (c *call) wantsURLs() (bool, error) {
	value, err := c.query().choice("responseType", "urls")
	return value != "", err
}

// privateURL returns absolute URLs of links that stand for private files.
func (c *call) privateURL(service *exports.Service) exports.PrivateURL {
	owner, client := exports.Digest(c.key.Digest), c.linkClient()
	return func(ctx context.Context, item exports.BatchItem) (string, error) {
		link, err := service.ShareLink(ctx, item, owner, client)
		if err != nil {
			return "", err
		}
		return c.publicBase() + "/viewer/exports/" + linkPath(link), nil
	}
}

// countItems counts the items of a batch with what is made of them: a zip with a manifest,
// or a response.
func (c *call) countItems(items []exports.BatchItem) error {
	const perItem, perFolder, factor = 1 << 10, 128, 3
	size := int64(perItem * len(items))
	for _, item := range items {
		size += int64(perFolder * strings.Count(item.Path, "/"))
		size += factor * int64(len(item.Path)+len(item.FileName))
		for _, b := range []byte(item.SourceURL) { // the JSON of a manifest is escaped for HTML
			if size += factor; b < ' ' || b == '&' || b == '<' || b == '>' {
				size += factor * 5
			}
		}
		if item.Export != nil {
			size += factor * exportSize(*item.Export)
		}
	}
	return c.count(size)
}

func exportSize(export exports.Export) int64 {
	return int64(len(export.SourceURL) + len(export.ExportedURL) + len(export.FileName))
}

type skippedItem struct {
	SourceFileURL string `json:"sourceFileUrl"`
	Reason        string `json:"reason"`
}

func skippedItems(list []exports.Skipped) []skippedItem {
	items := make([]skippedItem, len(list))
	for i, skipped := range list {
		items[i] = skippedItem{SourceFileURL: skipped.SourceURL, Reason: skipped.Reason}
	}
	return items
}

// summarize returns how many files could not be delivered, and why the first ones. It
// ignores those that are missing without a failure of the server or an upstream.
func summarize(list []exports.Skipped) (count int, first []string) {
	const maxNamed = 5
	for _, skipped := range list {
		_, notReady := errors.AsType[*exports.NotReadyError](skipped.Err)
		if notReady || errors.Is(skipped.Err, exports.ErrNotFound) || errors.Is(skipped.Err, exports.ErrInvalid) {
			continue
		}
		if count++; count <= maxNamed {
			first = append(first, fmt.Sprintf("%s: %.500v", exports.RedactURL(skipped.SourceURL), skipped.Err))
		}
	}
	return count, first
}

// logSkipped logs in one line why files of a batch were skipped, unless they are not
// registered. It names the first ones.
func (c *call) logSkipped(status int, list []exports.Skipped) {
	if c.disconnected() {
		return // they were skipped because the client has disconnected
	}
	if count, first := summarize(list); count > 0 {
		c.logFailure(slog.LevelWarn, "files skipped", status, "count", count, "first", first)
	}
}
