import { send } from "./api.js";
import { fileName } from "./download.js";

// The data of a symbol is any text. Front ends use JSON with name, type, content
// (base64), width and height. Images are shown in an <img>, where no script runs.

const imageType = /^image\/[a-z0-9.+-]+$/i;
const svg = "image/svg+xml";

// imageOf returns the image of a symbol as {blob, name}, or undefined if it has
// none.
export async function imageOf({ id }, signal) {
	try {
		const response = await send("GET", `symbol/symbols/${id}/image`, { key: "client", signal });
		return { blob: await response.blob(), name: fileName(response) };
	} catch (error) {
		if (error.status !== 404) throw error;
	}
}

// encode returns the fields of a symbol for an image file.
export async function encode(file) {
	const type = file.type || (/\.svg$/i.test(file.name) ? svg : "");
	if (!imageType.test(type)) throw new Error("Not an image.");
	const name = file.name.replace(/(.)\.[^.]+$/, "$1");
	const size = await imageSize(new Blob([file], { type }));
	return { name: [...name].slice(0, 255).join(""), type, data: JSON.stringify({ name, type, content: await base64(file), ...size }) };
}

async function imageSize(blob) {
	const image = new Image();
	image.src = URL.createObjectURL(blob);
	try {
		await image.decode();
	} catch {
		throw new Error("The browser cannot decode the image.");
	} finally {
		URL.revokeObjectURL(image.src);
	}
	const size = { width: image.naturalWidth, height: image.naturalHeight };
	if (blob.type !== svg) return size;
	// Browsers differ in the size of an SVG without width and height.
	const [root] = /<svg[^>]*>/i.exec(await blob.text()) ?? [""];
	const [, width, height] = /viewBox=["'][^"']*?([\d.]+)[\s,]+([\d.]+)\s*["']/.exec(root) ?? [];
	return /\swidth=/.test(root) || !(width > 0 && height > 0) ? size : { width: Math.round(width), height: Math.round(height) };
}

const base64 = (file) => new Promise((resolve, reject) => {
	const reader = new FileReader();
	reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
	reader.onerror = () => reject(new Error("The file cannot be read."));
	reader.readAsDataURL(file);
});

// imageNode shows a blob, whose URL is revoked once loaded. onerror is called if
// the blob is not an image.
export function imageNode(blob, alt, onerror) {
	const node = new Image();
	node.alt = alt;
	node.draggable = false;
	node.src = URL.createObjectURL(blob);
	node.onload = node.onerror = ({ type }) => {
		URL.revokeObjectURL(node.src);
		if (type === "error") onerror(node);
	};
	return node;
}
