// Returns what is wrong with how the page looks, as a list of sentences.
(() => {
	const problems = [];
	const complain = (element, text) => {
		const words = element.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
		problems.push(`<${element.localName} class="${element.className}"> "${words}": ${text}`);
	};

	// The style and the script are in force: both are refused if the policy has other digests.
	if (getComputedStyle(document.body).getPropertyValue("--text") === "") problems.push("there is no style");
	if (document.getElementById("pause").hidden) problems.push("the script has not run");

	const { scrollWidth } = document.scrollingElement;
	if (scrollWidth > innerWidth) problems.push(`the page is ${scrollWidth} px wide, the window ${innerWidth}`);

	// Colors are rgb(r, g, b) or rgba(r, g, b, a).
	const parse = (color) => color.match(/[\d.]+/g).map(Number);
	const background = (element) => {
		for (let e = element; e; e = e.parentElement) {
			const [r, g, b, a = 1] = parse(getComputedStyle(e).backgroundColor);
			if (a === 1) return [r, g, b];
			if (a > 0) complain(e, "its background is translucent: the contrast is not known");
		}
		return [255, 255, 255];
	};
	// As WCAG 2.2 defines relative luminance and contrast ratio.
	const luminance = (color) => {
		const [r, g, b] = color.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const contrast = (a, b) => {
		const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
		return (high + 0.05) / (low + 0.05);
	};
	const checkContrast = (element, pseudo) => {
		const ratio = contrast(parse(getComputedStyle(element, pseudo).color), background(element));
		if (ratio < 4.5) complain(element, `${pseudo || "its text"} has a contrast of ${ratio.toFixed(2)}`);
	};

	// What is only for screen readers is clipped on purpose.
	const shown = (element) => {
		for (let e = element; e; e = e.parentElement) if (getComputedStyle(e).clipPath !== "none") return false;
		return element.checkVisibility({ visibilityProperty: true });
	};
	// box returns where the text of an element must be, from left to right: in the content box of its block.
	const box = (element) => {
		const { display, paddingLeft, paddingRight } = getComputedStyle(element);
		if (display === "inline") return box(element.parentElement);
		const { left, right } = element.getBoundingClientRect();
		return [left + parseFloat(paddingLeft), right - parseFloat(paddingRight)];
	};

	let texts = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node = walker.nextNode(); node; node = walker.nextNode()) {
		const element = node.parentElement;
		if (node.data.trim() === "" || !shown(element) || element.matches("script, option")) continue;
		texts++;
		checkContrast(element);
		const range = document.createRange();
		range.selectNodeContents(node);
		const [left, right] = box(element);
		for (const r of range.getClientRects()) {
			if (r.left < left - 1 || r.right > right + 1) complain(element, `its text leaves its box, by ${Math.ceil(Math.max(left - r.left, r.right - right))} px`);
			if (r.left < 0 || r.right > innerWidth) complain(element, "its text leaves the window");
		}
	}
	if (texts < 50) problems.push(`there are ${texts} texts only`);

	for (const element of document.querySelectorAll("body *")) {
		const { overflowX, overflowY, textOverflow } = getComputedStyle(element);
		if (!shown(element) || element.matches("input, select, option")) continue;
		if (overflowX !== "visible" && element.scrollWidth > element.clientWidth && element.tabIndex < 0) complain(element, "it is cut off on the right, and no key scrolls it");
		if (overflowY !== "visible" && element.scrollHeight > element.clientHeight && element.tabIndex < 0) complain(element, "it is cut off at the bottom, and no key scrolls it");
		if (textOverflow !== "clip") complain(element, "its text may be cut off");
	}

	// WCAG 2.2, 2.5.8: targets of 24 by 24 CSS pixels.
	for (const target of document.querySelectorAll("a, button, input, select")) {
		if (!shown(target)) continue;
		if (target.matches("input")) checkContrast(target, "::placeholder");
		const { width, height } = target.getBoundingClientRect();
		if (width < 24 || height < 24) complain(target, `it is ${width.toFixed()} by ${height.toFixed()} px large, too small for a finger`);
	}
	return problems;
})()
