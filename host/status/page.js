"use strict";
// Gets the page again every few seconds and replaces what has changed. Focus, scrolling, and text that
// somebody is selecting stay as they are.
(() => {
	const every = 5000;
	const pause = document.getElementById("pause");
	const problem = document.getElementById("problem");
	let paused = false;

	const busy = (part) => {
		const selection = getSelection();
		return selection && !selection.isCollapsed && selection.containsNode(part, true);
	};
	const linkOf = (element) => element instanceof HTMLAnchorElement ? element.getAttribute("href") : null;

	function replace(part, next) {
		if (part.innerHTML === next.innerHTML || busy(part)) return;
		const focused = part.contains(document.activeElement) ? document.activeElement : null;
		const link = focused && linkOf(focused);
		const scroller = part.querySelector(".scroll");
		const left = scroller ? scroller.scrollLeft : 0;
		const wasScroller = focused && focused === scroller;
		part.replaceChildren(...next.childNodes);
		const again = part.querySelector(".scroll");
		if (again) again.scrollLeft = left;
		if (wasScroller && again) again.focus({ preventScroll: true });
		if (link !== null) {
			const found = [...part.querySelectorAll("a")].find((a) => linkOf(a) === link);
			if (found) found.focus({ preventScroll: true });
		}
	}

	async function refresh() {
		try {
			const response = await fetch(location.href, { cache: "no-store" });
			const type = response.headers.get("Content-Type") || "";
			if (!type.startsWith("text/html")) throw new Error(`${response.status} ${response.statusText}`);
			const next = new DOMParser().parseFromString(await response.text(), "text/html");
			if (paused) return;
			for (const part of document.querySelectorAll("[data-live]")) {
				const other = next.getElementById(part.id);
				if (other) replace(part, other);
			}
			problem.textContent = "";
		} catch (error) {
			problem.textContent = `Not updated: ${error.message}`;
		}
	}

	async function live() {
		if (!paused && !document.hidden) await refresh();
		setTimeout(live, every);
	}

	pause.hidden = false;
	pause.addEventListener("click", () => {
		paused = !paused;
		pause.setAttribute("aria-pressed", String(paused));
	});
	setTimeout(live, every);
})();
