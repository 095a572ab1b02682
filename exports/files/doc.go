// Package files opens exported files that lie on this machine, without a
// network between.
//
// Every file of a file system gets an address below a prefix:
//
//	root, err := os.OpenRoot("/srv/exports")
//	...
//	opener, err := files.New("https://example.com/exports/", root.FS())
//
// The address https://example.com/exports/2024/plan.pdf is then the file
// /srv/exports/2024/plan.pdf. Nothing is asked of example.com, nor need it
// serve the files itself.
//
// Prefer an [os.Root] to [os.DirFS], which follows a symbolic link to wherever
// it points. Whatever the file system lets through counts as meant for all who
// may register exports and for all who may download them.
package files
