// Package bundle carries the symbols of a folder in a zip: [Write] makes one
// for people and for [Read], which gives back the very same symbols, and also
// takes a plain zip of SVG and PNG files.
//
// # A bundle
//
// A bundle is a zip of one file for each symbol and, at its end, an entry
// manifest.json:
//
//	{
//	  "format": "canvasback-symbols", "version": 1, "folder": "Valves",
//	  "symbols": [
//	    {
//	      "file": "Gate valve.svg", "name": "Gate valve", "type": "image/svg+xml",
//	      "size": 713, "sha256": "5f3a...",
//	      "before": "{\"name\":\"Gate valve\",\"type\":\"image/svg+xml\",\"content\":\"",
//	      "after": "\",\"width\":96,\"height\":96}"
//	    }
//	  ]
//	}
//
// The symbols stand in the order in which they lay in the folder. size and
// sha256 are those of the file. If there are before and after, the symbol's
// data is before, the file in base64, and after: that is how the data of most
// viewers gives a file that can be looked at. Otherwise the file is the data.
// Either way the data comes back byte for byte.
//
// The same folder gives the same bytes, as long as the program is built with
// the same release of Go: entries have no time of their own. Each entry has its
// size and checksum in front, for readers of a stream.
//
// A bundle may lie in a directory of its zip, as it does when it was unpacked
// and packed again. Its files must be as they were. Without its manifest it is
// a plain zip.
//
// # A plain zip
//
// In a zip without a manifest each file, whatever its directory, becomes a
// symbol, in the order of the zip. The name is that of the file without its
// extension, .svg or .png, which says the type. The data is a JSON object with
// name, type, content (base64), width and height, like that of the viewers.
//
// Width and height are CSS pixels. Those of an SVG are its attributes width
// and height in any absolute unit of CSS, where em and rem are 16 px and ex is
// 8 px; one that is missing or relative follows from the viewBox, and without
// one is 300 or 150, all as in browsers.
//
// # What is refused
//
// Read gives all symbols or none. It knows the bounds of [Limits], which hold
// for what really comes out of an archive, whatever it says of itself.
package bundle
