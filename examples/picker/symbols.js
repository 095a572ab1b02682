// A client of the symbol library: pages of folders, search, images.

export class Symbols {
	// base is the URL of the API, key a client key.
	constructor(base, key) {
		this.base = new URL(base.replace(/\/?$/, "/"), location.href);
		this.headers = { "x-api-key": key };
	}

	async fetch(url) {
		const response = await fetch(new URL(url, this.base), { headers: this.headers });
		if (!response.ok) {
			const { message } = await response.json();
			throw Object.assign(new Error(message), { status: response.status });
		}
		return response;
	}

	// pages yields the pages of a list. Each link is relative to the previous URL.
	async *pages(url) {
		for (url = new URL(url, this.base); url;) {
			const response = await this.fetch(url);
			const next = /<([^>]*)>; rel="next"/.exec(response.headers.get("Link") ?? "");
			yield response.json();
			url = next && new URL(next[1], url);
		}
	}

	folders() {
		return this.pages("symbol/folders?limit=1000");
	}

	symbols(folder, limit = 100) {
		return this.pages(`symbol/folders/${folder}/symbols?fields=id,name&limit=${limit}`);
	}

	search(text, limit = 100) {
		return this.pages(`symbol/search?q=${encodeURIComponent(text)}&fields=id,name&limit=${limit}`);
	}

	// image returns the image of a symbol. Show it in an <img> only: elsewhere a blob
	// URL of an SVG could run its scripts with the rights of the page.
	async image(id) {
		return (await this.fetch(`symbol/symbols/${id}/image`)).blob();
	}
}
