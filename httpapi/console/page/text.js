// Texts for people, and commands.

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const day = { day: "numeric", month: "short", year: "numeric" };

export const date = (time) => new Date(time).toLocaleString("en-GB", day);
export const utcDate = (time) => new Date(time).toLocaleString("en-GB", { ...day, timeZone: "UTC" });
export const exact = (time) => new Date(time).toLocaleString("en-GB", { ...day, hour: "2-digit", minute: "2-digit" });

// localDay returns the local date of a time in milliseconds in the format of a date input.
export function localDay(time) {
	const at = new Date(time - new Date(time).getTimezoneOffset() * 60e3); // setMinutes would apply the offset of another day
	return at.toISOString().split("T")[0].replace("+0", ""); // the year 10000 is +010000
}

// ago formats the distance of a time from now in the largest unit that fits.
export function ago(time) {
	let value = (new Date(time) - Date.now()) / 1000;
	if (Math.abs(value) < 10) return "just now";
	for (const [unit, size] of [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]]) {
		if (Math.abs(value) < size) return relative.format(Math.trunc(value), unit);
		value /= size;
	}
}

export function bytes(n) {
	const unit = n < 1e3 ? 0 : n < 1e6 ? 1 : n < 1e9 ? 2 : 3;
	const value = n / 1000 ** unit;
	return `${value.toFixed(unit && value < 10 ? 1 : 0)} ${["B", "kB", "MB", "GB"][unit]}`;
}

export const plural = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

export const byName = new Intl.Collator("en", { numeric: true }).compare;

// quoted returns text as one word of a POSIX shell.
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// curl returns the command for a request. The key is a shell variable unless raw
// is given.
export function curl({ method = "POST", url, flags = "", key, raw, body, file }) {
	const data = body !== undefined || file;
	const parts = [`curl ${flags}${method === (data ? "POST" : "GET") ? "" : `-X ${method} `}${quoted(url)}`];
	if (raw) parts.push(`-H ${quoted(`x-api-key: ${raw}`)}`);
	else if (key) parts.push(key === "admin" ? `-H "x-admin-key: $ADMIN_KEY"` : `-H "x-api-key: $CLIENT_KEY"`);
	if (file) parts.push(`-H 'Content-Type: ${file}'`, "--data-binary @symbols.zip");
	else if (data) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
	return parts.join(" \\\n  ");
}
