package files_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"path/filepath"

	"example.com/canvasback/exports/files"
)

func Example() {
	dir, err := os.MkdirTemp("", "exports")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "plan.pdf"), []byte("%PDF-2.0"), 0o600); err != nil {
		log.Fatal(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	opener, err := files.New("https://example.com/exports/", root.FS())
	if err != nil {
		log.Fatal(err)
	}

	u, err := url.Parse("https://example.com/exports/plan.pdf")
	if err != nil {
		log.Fatal(err)
	}
	file, err := opener.Open(context.Background(), u)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Body.Close()
	content, err := io.ReadAll(file.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %s, %d bytes: %s\n", file.Name, file.Type, file.Size, content)
	// Output: plan.pdf, application/pdf, 8 bytes: %PDF-2.0
}
