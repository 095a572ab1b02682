// What is in the data of a symbol. The front ends of this API put JSON into it,
// with name, type, content (base64), width and height; any other text is as
// good. A picture is made of it for an <img>, where no script of it runs.

const image = /^image\/[a-z0-9.+-]+$/i;
const svg = "image/svg+xml";

// read returns {blob, about} for a picture, and nothing in it for all else.
export function read({ data, type }) {
	let about = {};
	try {
		about = JSON.parse(data) ?? {};
	} catch {
		// it is what it is
	}
	const text = (typeof about.content === "string" ? about.content : data).trim();
	if (/^<(\?xml|!--|!doctype svg|svg)/i.test(text) && text.includes("<svg")) return { about, blob: new Blob([text], { type: svg }) };
	const named = [about.type, type].find((one) => image.test(one));
	try {
		return named ? { about, blob: new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], { type: named }) } : {};
	} catch {
		return {}; // no base64, so no picture
	}
}

// write makes the fields of a symbol of a file, or throws an error that says
// why it cannot.
export async function write(file) {
	const type = file.type || (/\.svg$/i.test(file.name) ? svg : "");
	if (!image.test(type)) throw new Error("It is not an image.");
	const name = file.name.replace(/(.)\.[^.]+$/, "$1");
	const size = await measured(new Blob([file], { type }));
	return { name: [...name].slice(0, 255).join(""), type, data: JSON.stringify({ name, type, content: await base64(file), ...size }) };
}

async function measured(blob) {
	const picture = new Image();
	picture.src = URL.createObjectURL(blob);
	try {
		await picture.decode();
	} catch {
		throw new Error("The browser cannot read it as an image.");
	} finally {
		URL.revokeObjectURL(picture.src);
	}
	const size = { width: picture.naturalWidth, height: picture.naturalHeight };
	if (blob.type !== svg) return size;
	// A drawing without a size of its own gets one that depends on the browser.
	const [root] = /<svg[^>]*>/i.exec(await blob.text()) ?? [""];
	const [, width, height] = /viewBox=["'][^"']*?([\d.]+)[\s,]+([\d.]+)\s*["']/.exec(root) ?? [];
	return /\swidth=/.test(root) || !(width > 0 && height > 0) ? size : { width: Math.round(width), height: Math.round(height) };
}

const base64 = (file) => new Promise((resolve, reject) => {
	const reader = new FileReader();
	reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
	reader.onerror = () => reject(new Error("It cannot be read."));
	reader.readAsDataURL(file);
});

// picture shows a blob. Its address lives until it is loaded; broken is called
// if it is no picture after all.
export function picture(blob, alt, broken) {
	const node = new Image();
	node.alt = alt;
	node.draggable = false;
	node.src = URL.createObjectURL(blob);
	node.onload = node.onerror = ({ type }) => {
		URL.revokeObjectURL(node.src);
		if (type === "error") broken(node);
	};
	return node;
}
