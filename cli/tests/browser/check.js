// SPDX-License-Identifier: GPL-2.0-only
// What cli/tests/reports.rs asks of a page, in the page: a list of faults, empty if there are none.
"use strict";
// Once what has changed is drawn, which a timeline does with the next frame.
const drawn = () => new Promise(done => setTimeout(done, 50));

window.faultsOf = async (width, dark, contrast) => {
	const LEAST_PX = 10, LEAST_CONTRAST = 4.5;
	const faults = [], fault = (...words) => faults.push(words.join(" "));
	const quoted = text => JSON.stringify(text.trim().slice(0, 60));
	const root = document.documentElement;
	const visible = e => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;

	// Foldable parts are as readable as the rest.
	for (const d of document.querySelectorAll("details")) d.open = true;
	await drawn();

	if (innerWidth !== width) fault("the page is", innerWidth, "px wide");
	const rgb = text => text.match(/[\d.]+/g).map(Number);
	const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
		.map(v => (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4))
		.reduce((sum, v, n) => sum + v * [.2126, .7152, .0722][n], 0);
	const paper = luminance(rgb(getComputedStyle(document.querySelector("section")).backgroundColor));
	if ((paper < .2) !== dark) fault("the scheme is not", dark ? "dark" : "light");

	if (root.scrollWidth > root.clientWidth) {
		const over = [...document.querySelectorAll("body *")].find(e => e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest(".scroll"));
		fault("the document is", root.scrollWidth, "px wide:", over ? over.tagName + " " + quoted(over.textContent) : "");
	}

	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const node = texts.currentNode, e = node.parentElement;
		if (!node.data.trim() || ["SCRIPT", "STYLE"].includes(e.tagName) || !visible(e)) continue;
		const scale = e instanceof SVGElement ? Math.abs(e.getScreenCTM().a) || Math.abs(e.getScreenCTM().b) : 1;
		const px = parseFloat(getComputedStyle(e).fontSize) * scale;
		if (px < LEAST_PX) fault("text of", px.toFixed(1), "px:", quoted(node.data));
	}

	for (const svg of [...document.querySelectorAll("section svg")].filter(visible)) {
		const name = quoted(document.getElementById(svg.getAttribute("aria-labelledby"))?.textContent ?? "?");
		const frame = svg.getBoundingClientRect(), labels = [...svg.querySelectorAll("text")];
		const boxes = labels.map(t => t.getBoundingClientRect());
		const axes = new Map();
		labels.forEach((t, n) => {
			const text = t.textContent.trim(), at = a => t.getAttribute(a);
			// Ticks of an axis lie on a line: centred below it, or before it.
			const axis = { middle: "y " + at("y"), end: "x " + at("x") }[at("text-anchor")];
			if (axis && !at("transform")) {
				const seen = axes.get(axis) ?? axes.set(axis, new Set()).get(axis);
				if (seen.has(text)) fault("chart", name, "has two ticks", quoted(text));
				seen.add(text);
			}
			const a = boxes[n];
			if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1) {
				fault("chart", name, "cuts", quoted(text));
			}
			const other = boxes.findIndex((b, m) => m > n && a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 4 && b.top < a.bottom - 4);
			if (other >= 0) fault("chart", name, "has", quoted(text), "over", quoted(labels[other].textContent));
			const ink = luminance(rgb(getComputedStyle(t).fill));
			const stands = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
			if (stands < LEAST_CONTRAST) fault("chart", name, "has contrast", stands.toFixed(2), "at", quoted(text));
		});
	}

	await timeline(fault);

	// axe takes long: spare it the parts of pictures, which have no meaning alone, and rows like
	// those before them.
	for (const svg of document.querySelectorAll("svg")) svg.replaceChildren();
	for (const e of document.querySelectorAll(".lane[hidden], tbody tr:nth-child(n + 9)")) e.remove();
	const rules = { "color-contrast": { enabled: contrast } };
	const { violations } = await axe.run(document, { resultTypes: ["violations"], rules });
	for (const v of violations) {
		fault("axe:", v.id, "at", v.nodes.length, "places, first", v.nodes[0].target.join(" "), quoted(v.nodes[0].html));
	}
	return faults;
};

// A run's picture and its table have something in them.
const picture = (lane, fault) => {
	const canvas = lane.querySelector("canvas"), rows = lane.querySelectorAll("td").length;
	const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
	const colours = new Set(new Uint32Array(data.buffer));
	if (colours.size < 8 || !rows) fault("nothing is drawn of", lane.querySelector("h3").textContent);
};

// Chooses every policy with the last seed: each run must be there, and drawn. What was chosen
// before is chosen again.
const timeline = async fault => {
	const seed = document.getElementById("seed"), boxes = [...document.querySelectorAll("#policies input")];
	const shown = () => [...document.querySelectorAll(".lane")].filter(lane => !lane.hidden);
	// A recording has nothing to choose.
	if (!seed) return shown().forEach(lane => picture(lane, fault));
	const before = { seed: seed.value, boxes: boxes.map(b => b.checked) };
	const choose = async (value, checked) => {
		seed.value = value;
		boxes.forEach((b, n) => { b.checked = checked(n); });
		seed.dispatchEvent(new Event("change"));
		await drawn();
	};
	await choose(seed.options[seed.options.length - 1].value, () => true);
	const lanes = shown();
	if (lanes.length !== boxes.length) fault(boxes.length, "policies are chosen,", lanes.length, "shown");
	lanes.forEach(lane => picture(lane, fault));
	await choose(before.seed, n => before.boxes[n]);
};
