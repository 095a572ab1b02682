// A zip of files, as an upload of many needs it.

const crcs = Uint32Array.from({ length: 256 }, (_, i) => {
	for (let bit = 0; bit < 8; bit++) i = i & 1 ? (i >>> 1) ^ 0xedb88320 : i >>> 1;
	return i;
});

const crc32 = (content) => ~content.reduce((sum, byte) => crcs[(sum ^ byte) & 255] ^ (sum >>> 8), -1) >>> 0;

// littleEndian returns numbers, each given as [bytes, value].
const littleEndian = (...fields) =>
	Uint8Array.from(fields.flatMap(([size, value]) => Array.from({ length: size }, (_, i) => (value >>> (8 * i)) & 255)));

const [version, utf8, stored, noTime, noDate] = [[2, 20], [2, 0x800], [2, 0], [2, 0], [2, 0x21]];

// zipOf returns a zip of at most 65,535 files and 4 GB, not compressed (APPNOTE.TXT, 4.3).
// What cannot be read, such as a directory, is empty in it.
export async function zipOf(files) {
	const [parts, directory] = [[], []];
	let offset = 0;
	for (const file of files) {
		const name = new TextEncoder().encode(file.name);
		const content = new Uint8Array(await file.arrayBuffer().catch(() => []));
		const common = [version, utf8, stored, noTime, noDate, [4, crc32(content)], [4, content.length], [4, content.length], [2, name.length], [2, 0]];
		const local = littleEndian([4, 0x04034b50], ...common);
		directory.push(littleEndian([4, 0x02014b50], version, ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]), name);
		parts.push(local, name, content);
		offset += local.length + name.length + content.length;
	}
	const size = directory.reduce((sum, { length }) => sum + length, 0);
	const end = littleEndian([4, 0x06054b50], [2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, offset], [2, 0]);
	return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
