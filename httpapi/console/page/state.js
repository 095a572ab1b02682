// A state is a value that knows its readers: watch runs a function now, and again after
// each change of a state that it has read.

let reader;

export function state(value) {
	const readers = new Set();
	return {
		get value() {
			if (reader) readers.add(reader);
			return value;
		},
		set value(next) {
			if (next === value) return;
			value = next;
			for (const read of [...readers]) read();
		},
	};
}

export function watch(run) {
	const read = () => {
		const outer = reader;
		reader = read;
		try {
			run();
		} finally {
			reader = outer;
		}
	};
	read();
}
