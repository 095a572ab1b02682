// Changes of records that others may have changed meanwhile.

import { CanvasbackError } from "../../client/client.js";

// unlessChanged sends a change of a record that is still as seen, and returns the
// response. stored reads the record and its ETag; isChanged compares it with the seen one;
// values lists {name, theirs, mine} for the error of a conflict, mine absent for a
// deletion. request gets the headers to send.
export async function unlessChanged(seen, { stored, isChanged, values, request }) {
	const conflict = (now) => {
		const error = new CanvasbackError("It is not as it was shown to you", { status: 412 });
		return Object.assign(error, { now, values: values(now) });
	};
	let { etag } = seen; // known after a change by this page
	if (!etag) {
		const now = await stored();
		if (isChanged(now)) throw conflict(now);
		etag = now.etag;
	}
	try {
		return await request(etag ? { "If-Match": etag } : {});
	} catch (error) {
		if (error.status !== 412) throw error;
		if (seen.etag) return unlessChanged({}, { stored, isChanged, values, request }); // it may be of another field
		throw conflict(await stored());
	}
}

// editor returns a function that changes a record with change(seen, body): if it is
// still as seen or, after a conflict, as that has told. Its property seen is that record.
export function editor(record, change) {
	const edit = async (body) => {
		try {
			return await change(edit.seen, body);
		} catch (error) {
			edit.seen = error.now ?? edit.seen;
			throw error;
		}
	};
	edit.seen = record;
	return edit;
}
