// Package files opens exported files from a file system, without the network.
//
// Every file of the file system has a URL below a prefix:
//
//	root, err := os.OpenRoot("/srv/exports")
//	...
//	opener, err := files.New("https://example.com/exports/", root.FS())
//
// The URL https://example.com/exports/2024/plan.pdf then stands for the file
// /srv/exports/2024/plan.pdf. The Opener sends no request to example.com, which
// need not serve the files.
//
// Prefer [os.Root] to [os.DirFS], which follows symbolic links out of its
// directory. Every client that may register exports can download every file of
// the file system.
package files
