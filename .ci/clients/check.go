// Command check calls every operation through the client that oapi-codegen has
// generated.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"reflect"
	"strings"

	"clients/generated/canvasback"
)

const (
	sourceURL   = "https://viewer.example/documents/generated"
	exportedURL = "http://standalone.internal/samples/exports/pump-skid.svg"
)

var called = make(map[string]bool)

// must notes that the operation of a response was called. It ends the program if
// the call has failed.
func must[R interface{ StatusCode() int }](response R, err error) R {
	name := strings.TrimSuffix(reflect.TypeOf(response).Elem().Name(), "Response")
	if err != nil || response.StatusCode() >= 300 {
		log.Fatalf("%s: %v %+v", name, err, response)
	}
	called[name] = true
	return response
}

// header returns an editor that sets a header.
func header(name, value string) canvasback.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set(name, value)
		return nil
	}
}

func main() {
	ctx := context.Background()
	api, err := canvasback.NewClientWithResponses("http://127.0.0.1:18080/api")
	if err != nil {
		log.Fatal(err)
	}

	admin := header("x-admin-key", "admin-key-of-clients")
	id := must(api.CreateKeyWithResponse(ctx, nil, canvasback.CreateKeyJSONRequestBody{Name: new("Viewer")}, admin)).JSON201.Key.Id
	must(api.ListKeysWithResponse(ctx, nil, admin))
	must(api.GetKeyWithResponse(ctx, id, nil, admin))
	must(api.UpdateKeyWithResponse(ctx, id, nil, canvasback.UpdateKeyJSONRequestBody{Name: new("Other")}, admin))
	key := header("x-api-key", must(api.RotateKeyWithResponse(ctx, id, nil, canvasback.RotateKeyJSONRequestBody{OverlapSeconds: new(0)}, admin)).JSON200.ApiKey)

	other := must(api.CreateKeyWithResponse(ctx, nil, canvasback.CreateKeyJSONRequestBody{}, admin)).JSON201.Key.Id
	must(api.UpdateKeysWithResponse(ctx, nil, canvasback.UpdateKeysJSONRequestBody{Ids: []canvasback.Id{other}, IsActive: new(false)}, admin))
	imported := canvasback.ImportKeysJSONRequestBody{Keys: []canvasback.ImportedApiKey{{Sha256: strings.Repeat("b", 64)}}}
	must(api.ImportKeysWithResponse(ctx, nil, imported, admin))
	must(api.RevokeRawKeysWithResponse(ctx, nil, canvasback.RevokeRawKeysJSONRequestBody{ApiKeys: []string{"unknown"}}))
	must(api.DeleteKeysWithResponse(ctx, nil, canvasback.DeleteKeysJSONRequestBody{Ids: []canvasback.Id{other}}, admin))
	must(api.CreateTokenWithResponse(ctx, nil, canvasback.CreateTokenJSONRequestBody{Scopes: &[]string{"symbols:read"}}, key))
	must(api.GetOwnKeyWithResponse(ctx, nil, key))

	folder := must(api.CreateFolderWithResponse(ctx, nil, canvasback.CreateFolderJSONRequestBody{Name: "Generated Go"}, key)).JSON201.Id
	must(api.ListFoldersWithResponse(ctx, &canvasback.ListFoldersParams{Limit: new(canvasback.Limit(10))}, key))
	must(api.GetFolderWithResponse(ctx, folder, nil, key))
	must(api.UpdateFolderWithResponse(ctx, folder, nil, canvasback.UpdateFolderJSONRequestBody{Name: new("Valves Go")}, key))
	symbol := must(api.CreateSymbolWithResponse(ctx, folder, nil, canvasback.CreateSymbolJSONRequestBody{
		Name: "Valve", Type: "image/svg+xml", Data: `<svg xmlns="http://www.w3.org/2000/svg"/>`,
	}, key)).JSON201.Id
	must(api.ListSymbolsWithResponse(ctx, folder, &canvasback.ListSymbolsParams{Fields: new(canvasback.Fields("id,name"))}, key))
	must(api.GetSymbolWithResponse(ctx, symbol, nil, key))
	must(api.UpdateSymbolWithResponse(ctx, symbol, nil, canvasback.UpdateSymbolJSONRequestBody{Name: new("Gate valve")}, key))
	must(api.SearchSymbolsWithResponse(ctx, &canvasback.SearchSymbolsParams{Q: "gate"}, key))
	if image := must(api.GetSymbolImageWithResponse(ctx, symbol, nil, key)); !bytes.HasPrefix(image.Body, []byte("<svg")) {
		log.Fatalf("image: %q", image.Body)
	}
	zip := must(api.ExportFolderWithResponse(ctx, folder, nil, key)).Body
	must(api.ImportSymbolsWithBodyWithResponse(ctx, folder, nil, "application/zip", bytes.NewReader(zip), key))
	ids := []canvasback.Id{symbol}
	must(api.UpdateSymbolsWithResponse(ctx, nil, canvasback.UpdateSymbolsJSONRequestBody{Ids: ids, AddTags: &[]string{"valve"}}, key))
	must(api.DeleteSymbolsWithResponse(ctx, nil, canvasback.DeleteSymbolsJSONRequestBody{Ids: ids}, key))
	trash := *must(api.ListTrashWithResponse(ctx, nil, key)).JSON200
	must(api.RestoreTrashWithResponse(ctx, trash[len(trash)-1].Id, nil, canvasback.RestoreTrashJSONRequestBody{}, key))
	must(api.DeleteSymbolWithResponse(ctx, symbol, nil, key))
	must(api.DeleteFolderWithResponse(ctx, folder, nil, key))
	trash = *must(api.ListTrashWithResponse(ctx, nil, key)).JSON200
	must(api.DeleteTrashWithResponse(ctx, trash[0].Id, nil, key))

	must(api.RegisterExportWithResponse(ctx, nil, canvasback.RegisterExportJSONRequestBody{SourceFileUrl: sourceURL, ExportedUrl: exportedURL}, admin))
	if file := must(api.DownloadExportWithResponse(ctx, nil, canvasback.DownloadExportJSONRequestBody{SourceFileUrl: sourceURL}, key)); len(file.Body) == 0 {
		log.Fatal("empty file")
	}
	items := make([]canvasback.BatchExportDownloadRequest_Items_Item, 1)
	if err := items[0].FromBatchExportItem(canvasback.BatchExportItem{SourceFileUrl: sourceURL}); err != nil {
		log.Fatal(err)
	}
	must(api.DownloadExportBatchWithResponse(ctx, nil, canvasback.DownloadExportBatchJSONRequestBody{Items: items}, key))
	link := must(api.CreateDownloadLinkWithResponse(ctx, nil, canvasback.CreateDownloadLinkJSONRequestBody{SourceFileUrl: new(sourceURL)}, key)).JSON201
	parts := strings.Split(link.Url, "/")
	must(api.DownloadLinkWithResponse(ctx, parts[len(parts)-2], parts[len(parts)-1], nil))
	list := *must(api.ListExportsWithResponse(ctx, &canvasback.ListExportsParams{Q: new(sourceURL)}, admin)).JSON200
	must(api.GetExportWithResponse(ctx, list[0].Id, nil, admin))
	must(api.CheckExportWithResponse(ctx, list[0].Id, nil, admin))
	must(api.DeleteExportWithResponse(ctx, list[0].Id, nil, admin))
	must(api.DeleteKeyWithResponse(ctx, id, nil, admin))
	must(api.GetDocumentWithResponse(ctx, nil))
	must(api.GetClientScriptWithResponse(ctx, nil))
	must(api.GetClientTypesWithResponse(ctx, nil))

	client := reflect.TypeOf(api)
	for i := range client.NumMethod() {
		name, _ := strings.CutSuffix(client.Method(i).Name, "WithResponse")
		if name, _ = strings.CutSuffix(name, "WithBody"); !called[name] {
			log.Fatal("not called: ", name)
		}
	}
	fmt.Println(len(called), "operations in Go")
}
