// The pictures in a file that is to be imported, for its preview: the server stores nothing
// in a dry run. What is not found here is imported all the same.

const [endOfDirectory, directoryEntry] = [0x06054b50, 0x02014b50];
const endLength = 22; // bytes, without a comment
const maxComment = 0xffff;

// picturesIn returns functions that read pictures, by the name that the server reports.
export async function picturesIn(file) {
	const start = await file.slice(0, 64).text();
	if (start.startsWith("PK")) return zipEntries(file);
	const text = await file.text();
	if (start.trimStart().startsWith("<mxlibrary")) return drawioPictures(text);
	return start.trimStart().startsWith("{") ? iconifyPictures(text) : new Map();
}

// zipEntries returns the entries of a zip (APPNOTE.TXT, 4.3).
async function zipEntries(file) {
	const tailStart = Math.max(0, file.size - endLength - maxComment);
	const tail = new DataView(await file.slice(tailStart).arrayBuffer());
	let end = tail.byteLength - endLength;
	while (tail.getUint32(end, true) !== endOfDirectory) end--;
	const [size, offset] = [tail.getUint32(end + 12, true), tail.getUint32(end + 16, true)];
	const directory = new DataView(await file.slice(offset, offset + size).arrayBuffer());
	const entries = new Map();
	for (let at = 0; at < size && directory.getUint32(at, true) === directoryEntry;) {
		const entry = { method: directory.getUint16(at + 10, true), size: directory.getUint32(at + 20, true), offset: directory.getUint32(at + 42, true) };
		const [name, extra, comment] = [28, 30, 32].map((field) => directory.getUint16(at + field, true));
		entries.set(new TextDecoder().decode(new Uint8Array(directory.buffer, at + 46, name)), () => zipEntry(file, entry));
		at += 46 + name + extra + comment;
	}
	return entries;
}

// zipEntry returns the content of an entry, stored or deflated.
async function zipEntry(file, { method, size, offset }) {
	const header = new DataView(await file.slice(offset, offset + 30).arrayBuffer());
	const start = offset + 30 + header.getUint16(26, true) + header.getUint16(28, true);
	const content = file.slice(start, start + size);
	if (!method) return content;
	return new Response(content.stream().pipeThrough(new DecompressionStream("deflate-raw"))).blob();
}

function drawioPictures(text) {
	const content = text.slice(text.indexOf(">") + 1, text.lastIndexOf("</mxlibrary")).trim();
	const list = JSON.parse(content.startsWith("<![CDATA[") ? content.slice(9, -3) : unescaped(content));
	return new Map(list.filter(({ data }) => data).map(({ title, data }) => [title, () => fetchData(data)]));
}

const entities = { quot: '"', apos: "'", lt: "<", gt: ">", amp: "&" };

const unescaped = (text) => text.replace(/&(?:#(\d+)|#x([\da-f]+)|(\w+));/gi, (all, decimal, hex, name) =>
	(name ? entities[name] ?? all : String.fromCodePoint(decimal ?? parseInt(hex, 16))));

// fetchData returns the bytes of a data URL, which the policy of the page does not let it
// fetch.
function fetchData(url) {
	const comma = url.indexOf(",");
	const content = url.slice(comma + 1);
	if (!url.slice(0, comma).endsWith(";base64")) return decodeURIComponent(content);
	return Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
}

function iconifyPictures(text) {
	const { icons, width = 16, height = 16 } = JSON.parse(text);
	return new Map(Object.entries(icons).map(([name, icon]) => {
		const box = [icon.left ?? 0, icon.top ?? 0, icon.width ?? width, icon.height ?? height];
		return [name, () => `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box.map(Number).join(" ")}">${icon.body}</svg>`];
	}));
}
