// Package bundle exports the symbols of a folder as a zip and imports them.
// [Write] writes a bundle. [Read] restores exactly the same symbols from it; it
// also imports libraries and pictures, and plain zips of them.
//
// # Bundle
//
// A bundle is a zip with one file per symbol and, as its last entry, a
// manifest.json:
//
//	{
//	  "format": "canvasback-symbols", "version": 1, "folder": "Valves",
//	  "symbols": [
//	    {
//	      "file": "Gate valve.svg", "name": "Gate valve", "type": "image/svg+xml",
//	      "size": 713, "sha256": "5f3a...", "tags": ["brass"], "meta": {"license":"MIT"},
//	      "before": "{\"name\":\"Gate valve\",\"type\":\"image/svg+xml\",\"content\":\"",
//	      "after": "\",\"width\":96,\"height\":96}"
//	    }
//	  ]
//	}
//
// Symbols are in the order of the folder. The fields size and sha256 describe the file;
// tags and meta are absent if they are empty. With before and after, a symbol's data is
// before, the file in base64, and after: the data of most viewers then gives a file that
// other programs can open. Otherwise the file is the data. Either way the data is restored
// byte for byte.
//
// The same folder gives the same bytes if the program is built with the same
// release of Go: entries have a constant modification time. Local headers have
// sizes and checksums, so the zip can be read as a stream.
//
// The bundle may be in a directory of its zip, as it is after unpacking and
// packing again. Its files must be unchanged. Without a manifest it is a plain
// zip.
//
// # Plain zip
//
// Without a manifest each picture (SVG, PNG, JPEG, GIF, WebP) becomes a symbol, in
// the order of the zip. The name is the file name without its extension, which
// determines the type. The directories become tags. The data is a JSON object with
// name, type, content (base64), width and height, as viewers write it.
//
// # Libraries
//
// The entries of a draw.io library become symbols if they are images: as data URLs, or
// in the style of the only image cell of a diagram. Icons of an Iconify set and their
// aliases become SVGs. Size, license and author are in the meta of the symbols;
// license and author are cut to 255 characters.
//
// Width and height are those of [picture.Size].
//
// # Limits
//
// Read returns all symbols or none. [Limits] apply to the bytes that are
// actually decompressed, whatever the headers declare.
package bundle
