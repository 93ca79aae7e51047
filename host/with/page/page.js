"use strict";
// Gets the page again every few seconds and changes what differs. Elements stay the same ones, and with them
// focus and scrolling; what holds a selection is left as it is.
(() => {
	const every = 5000; // milliseconds
	const pause = document.getElementById("pause");
	const problem = document.getElementById("problem");
	let paused = false;
	let updating = false;

	function removed(node) {
		const next = node.nextSibling;
		node.remove();
		return next;
	}

	// update makes an element equal to another one. Children with an id are found again in another place, and
	// those that stay in their order are not moved: focus and scrolling depend on that.
	function update(element, next) {
		for (const { name } of [...element.attributes]) if (!next.hasAttribute(name)) element.removeAttribute(name);
		for (const { name, value } of next.attributes) if (element.getAttribute(name) !== value) element.setAttribute(name, value);
		const ids = new Set([...next.children].map((child) => child.id));
		for (const child of [...element.children]) if (child.id && !ids.has(child.id)) child.remove();
		let at = element.firstChild;
		for (const wanted of [...next.childNodes]) {
			let node = at;
			while (wanted.id && node && node.id !== wanted.id) node = node.nextSibling;
			if (!node || node.nodeName !== wanted.nodeName || node.id !== wanted.id) node = wanted;
			while (wanted.id && node !== wanted && node !== at && !at.id) at = removed(at);
			if (node === at) at = at.nextSibling;
			else element.insertBefore(node, at);
			if (node === wanted) continue;
			if (node instanceof Element) update(node, wanted);
			else if (node.data !== wanted.data) node.data = wanted.data;
		}
		while (at) at = removed(at);
	}

	const partsOf = (page) => [...page.querySelectorAll("[data-live]")].map((part) => part.id);

	function show(next) {
		const ids = partsOf(document);
		if (!next.getElementById("now")) throw new Error("the reply is another page");
		if (partsOf(next).join() !== ids.join()) return location.reload(); // the plugin has come or gone
		const focused = document.activeElement;
		const selection = getSelection();
		for (const id of ids) {
			const part = document.getElementById(id);
			if (selection.isCollapsed || !selection.containsNode(part, true)) update(part, next.getElementById(id));
		}
		// An element that was moved has lost it.
		if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
	}

	async function get() {
		const options = { cache: "no-store", signal: AbortSignal.timeout(2 * every) };
		const response = await fetch(location.href, options).catch(() => { throw new Error("the host does not respond"); });
		const type = response.headers.get("Content-Type") || "";
		if (!type.startsWith("text/html")) throw new Error(`${response.status} ${response.statusText}`);
		return new DOMParser().parseFromString(await response.text(), "text/html");
	}

	function tell(text) { // screen readers read what is set, also if it is the same
		if (problem.textContent !== text) problem.textContent = text;
	}

	async function refresh() {
		if (paused || updating || document.hidden) return;
		updating = true;
		try {
			const next = await get();
			if (!paused) show(next);
			tell("");
		} catch (error) {
			tell(`Not updated: ${error.message}`);
		}
		updating = false;
	}

	pause.hidden = false;
	pause.addEventListener("click", () => {
		paused = !paused;
		pause.setAttribute("aria-pressed", String(paused));
		refresh();
	});
	document.addEventListener("visibilitychange", refresh);
	setInterval(refresh, every);
})();
