// SPDX-License-Identifier: GPL-2.0-only
// Shows each page in frames of several widths, one after the other, and leaves the faults of all as JSON in #faults.
"use strict";
(async () => {
	const { pages, widths, dark } = JSON.parse(document.getElementById("input").textContent);
	// Contrast does not depend on the width, and takes longest.
	const scripts = ["axe", "check"].map(id => document.getElementById(id).textContent);
	const found = [];
	for (const { name, html } of pages) {
		for (const width of widths) {
			const frame = document.createElement("iframe");
			frame.style.cssText = `width:${width}px;height:900px;border:0`;
			// Nothing is on a screen, so that no frame ever comes.
			frame.srcdoc = html.replace("<head>", "<head><script>window.requestAnimationFrame = draw => setTimeout(draw);<\/script>");
			const loaded = new Promise(done => frame.addEventListener("load", done));
			document.body.append(frame);
			await loaded;
			let faults;
			try {
				for (const text of scripts) {
					const script = frame.contentDocument.createElement("script");
					script.textContent = text;
					frame.contentDocument.head.append(script);
				}
				faults = await frame.contentWindow.faultsOf(width, dark, width === widths[0]);
			} catch (e) {
				faults = ["the check fails: " + e];
			}
			found.push(...faults.map(f => `${name} at ${width} px, ${dark ? "dark" : "light"}: ${f}`));
			frame.remove();
		}
	}
	const done = document.createElement("pre");
	done.id = "faults";
	done.textContent = JSON.stringify({ checked: pages.length * widths.length, faults: found });
	document.body.append(done);
})();
