// Package files opens exported files from a file system, without the network.
//
// Every file of the file system has a URL below a prefix:
//
//	root, err := os.OpenRoot("/srv/exports")
//	...
//	opener, err := files.New("http://files.internal/", root.FS())
//
// The URL http://files.internal/2024/plan.pdf then stands for the file
// /srv/exports/2024/plan.pdf. The Opener sends no request, and nothing serves the
// files at these URLs: clients download them, or get a download link.
//
// Prefer [os.Root] to [os.DirFS], which follows symbolic links out of its directory.
// A Root follows relative ones within it, and no absolute ones. Names that begin with a
// dot do not exist. Whoever may register exports can download every other file of the
// file system.
//
// # Changes
//
// The Validator of a file is its inode, size, modification time and change time. Copies of
// a file on several machines have different Validators; a file on a network file system has
// the same on each. On file systems without inodes and on Windows it is size and
// modification time; a change that preserves both is not detected, and neither is one
// through memory that a process has mapped. Timestamps have a limited resolution, so a file
// has no Validator until two seconds after its change if the file system has no inodes or
// stores seconds. Otherwise Open and Stat wait for up to 20 ms.
//
// The Validator of a file in an [embed.FS] is the digest of its content, which each
// Open and Stat reads. Other files without a modification time have no Validator.
//
// [Opener.OpenRange] checks the Validator after each Read. A file that is replaced,
// linked or unlinked during the read counts as changed, even though its content is
// the same.
package files
