// SPDX-License-Identifier: GPL-2.0-only
// The scheduling timelines of a report: one canvas per run, all showing the same span of time.
"use strict";
(() => {
	const data = JSON.parse(document.getElementById("timeline-data").textContent);
	const ROW = 22, GAP = 3, TOP = 24;
	const CLASSES = ["real-time", "boost", "under", "over", "idle"];
	// As in report.css.
	const dark = matchMedia("(prefers-color-scheme: dark)"), narrow = matchMedia("(max-width: 719px)");
	// Less room for names on a phone; a letter takes 7.5 px in wide fonts.
	const left = () => (narrow.matches ? 102 : 130), letters = () => (narrow.matches ? 12 : 16);
	const plotWidth = canvas => canvas.clientWidth - left();
	const tip = document.createElement("div");
	tip.className = "tip";
	tip.setAttribute("role", "status");
	document.body.append(tip);

	const full = { from: 0, to: data.length };
	let view = { ...full };
	const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
	const time = ns => {
		const a = Math.abs(ns);
		const [div, unit] = a >= 1e10 ? [1e9, "s"] : a >= 1e6 ? [1e6, "ms"] : a >= 1e3 ? [1e3, "µs"] : [1, "ns"];
		return (ns / div).toFixed(a >= 1e3 && a / div < 100 ? 2 : 0).replace(/\.?0+$/, m => (m[0] === "." ? "" : m)) + " " + unit;
	};

	// A flat list of [start since the last end, length, vcpu, class, wait before] becomes objects sorted by start.
	const unpack = flat => {
		const out = [];
		let at = 0;
		for (let i = 0; i < flat.length; i += 5) {
			const from = at + flat[i], to = from + flat[i + 1];
			out.push({ from, to, vcpu: flat[i + 2], class: flat[i + 3], wait: flat[i + 4] });
			at = to;
		}
		return out;
	};
	const firstAfter = (list, t) => {
		let lo = 0, hi = list.length;
		while (lo < hi) {
			const mid = (lo + hi) >> 1;
			if (list[mid].to <= t) lo = mid + 1; else hi = mid;
		}
		return lo;
	};

	const seed = document.getElementById("seed"), policies = document.getElementById("policies");
	const lanes = data.runs.map((run, number) => {
		const place = document.getElementById("run-" + number), canvas = document.getElementById("lane-" + number);
		let rows = null;
		// Unpacked when the run is first shown.
		return { run, place, canvas, get rows() { return rows ??= rowsOf(run); } };
	});
	const shown = () => lanes.filter(lane => !lane.place.hidden);

	const rowsOf = run => {
		const rows = run.rows.map((flat, n) => ({ name: "PCPU " + n, list: unpack(flat), waits: false }));
		// Beside the PCPUs: when the VCPUs that matter were ready and did not run.
		for (const v of run.watch) {
			const list = [];
			for (const row of rows) {
				for (const s of row.list) {
					if (!row.waits && s.vcpu === v && s.wait > 0) {
						list.push({ from: Math.max(0, s.from - s.wait), to: s.from, vcpu: v, class: s.class, wait: s.wait });
					}
				}
			}
			list.sort((a, b) => a.from - b.from);
			rows.push({ name: run.vcpus[v].name + " waits", list, waits: true });
		}
		return rows;
	};

	const colour = (lane, vcpu) => data.vms[lane.run.vcpus[vcpu].vm].colour[dark.matches ? 1 : 0];

	function draw(lane) {
		const { canvas, rows } = lane, scale = devicePixelRatio || 1, LEFT = left(), most = letters();
		const width = canvas.clientWidth, height = TOP + rows.length * (ROW + GAP) + 4;
		canvas.style.height = height + "px";
		canvas.width = width * scale;
		canvas.height = height * scale;
		const g = canvas.getContext("2d");
		g.scale(scale, scale);
		g.font = "12px system-ui, sans-serif";
		g.textBaseline = "middle";
		const span = view.to - view.from, plot = plotWidth(canvas);
		const x = t => LEFT + (t - view.from) / span * plot;

		// The least of 1, 2 or 5 times a power of ten that leaves room for a label.
		const least = 90 * span / plot, power = 10 ** Math.floor(Math.log10(least));
		const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= least);
		g.fillStyle = css("--muted");
		g.strokeStyle = css("--grid");
		g.beginPath();
		for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
			g.moveTo(x(t) + .5, TOP - 6);
			g.lineTo(x(t) + .5, height);
			g.textAlign = x(t) < LEFT + 20 ? "left" : x(t) > width - 30 ? "right" : "center";
			g.fillText(time(t), x(t), 9);
		}
		g.stroke();

		rows.forEach((row, n) => {
			const y = TOP + n * (ROW + GAP);
			g.textAlign = "right";
			g.fillStyle = row.waits ? css("--bad") : css("--muted");
			g.fillText(row.name.length > most ? row.name.slice(0, most - 1) + "…" : row.name, LEFT - 10, y + ROW / 2);
			g.globalAlpha = .45;
			g.fillStyle = css("--grid");
			g.fillRect(LEFT, y, plot, ROW);
			g.globalAlpha = 1;
			g.save();
			g.beginPath();
			g.rect(LEFT, y, plot, ROW);
			g.clip();
			for (let i = firstAfter(row.list, view.from); i < row.list.length && row.list[i].from < view.to; i++) {
				const s = row.list[i], a = x(s.from), w = Math.max(x(s.to) - a, .6);
				// Waits too short to see would merge into one that never was.
				if (row.waits && x(s.to) - a < .4) continue;
				const rt = s.class === 0;
				g.fillStyle = row.waits ? css("--bad") : colour(lane, s.vcpu);
				const strong = rt || data.vms[lane.run.vcpus[s.vcpu].vm].bold;
				g.globalAlpha = row.waits ? .85 : strong ? 1 : .55;
				g.fillRect(a, y, w > 3 ? w - .5 : w, ROW);
				g.globalAlpha = 1;
				if (rt && !row.waits) {
					g.fillStyle = css("--ink");
					g.fillRect(a, y, w, 4);
				}
				if (w > 46 && !row.waits) {
					g.fillStyle = strong ? css("--paper") : css("--ink");
					g.textAlign = "left";
					g.fillText(lane.run.vcpus[s.vcpu].name, Math.max(a, LEFT) + 5, y + ROW / 2 + 2, Math.max(10, w - 10));
				}
			}
			g.restore();
		});
	}

	let queued = false;
	const redraw = () => {
		if (queued) return;
		queued = true;
		requestAnimationFrame(() => { queued = false; shown().forEach(draw); });
	};
	const show = (from, to) => {
		const span = Math.min(Math.max(to - from, 2000), full.to - full.from);
		from = Math.min(Math.max(from, full.from), full.to - span);
		view = { from, to: from + span };
		redraw();
	};
	const zoom = (factor, at) => show(at - (at - view.from) * factor, at + (view.to - at) * factor);
	const middle = () => (view.from + view.to) / 2;

	function hit(lane, e) {
		const box = lane.canvas.getBoundingClientRect(), LEFT = left();
		const px = e.clientX - box.left, row = lane.rows[Math.floor((e.clientY - box.top - TOP) / (ROW + GAP))];
		if (!row || px < LEFT) return null;
		const per = (view.to - view.from) / (box.width - LEFT), t = view.from + (px - LEFT) * per;
		const found = row.list[firstAfter(row.list, t - 2 * per)];
		return found && found.from <= t + 2 * per ? { row, s: found } : null;
	}

	function describe(lane, e) {
		const found = hit(lane, e);
		tip.style.visibility = found ? "visible" : "hidden";
		if (!found) return;
		const { row, s } = found, v = lane.run.vcpus[s.vcpu];
		tip.replaceChildren();
		const lines = row.waits
			? [v.name, "ready but not running for " + time(s.wait), "from " + time(s.from) + " to " + time(s.to)]
			: [v.name + " · " + CLASSES[s.class], "runs " + time(s.to - s.from) + " from " + time(s.from),
				s.wait ? "after waiting " + time(s.wait) : ""];
		lines.filter(Boolean).forEach((text, i) => {
			const line = document.createElement(i ? "div" : "b");
			line.textContent = text;
			tip.append(line);
		});
		tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
		tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
	}

	for (const lane of lanes) {
		const c = lane.canvas;
		const at = e => view.from + (e.clientX - c.getBoundingClientRect().left - left()) / plotWidth(c) * (view.to - view.from);
		let held = null;
		c.addEventListener("wheel", e => {
			if (!e.ctrlKey && !e.shiftKey && Math.abs(e.deltaX) < Math.abs(e.deltaY) && document.activeElement !== c) return;
			e.preventDefault();
			if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
				const d = e.deltaX / plotWidth(c) * (view.to - view.from);
				show(view.from + d, view.to + d);
			} else {
				zoom(Math.exp(e.deltaY / 400), at(e));
			}
		}, { passive: false });
		c.addEventListener("pointerdown", e => {
			held = { x: e.clientX, ...view };
			c.classList.add("held");
			c.setPointerCapture(e.pointerId);
			c.focus({ preventScroll: true });
		});
		c.addEventListener("pointermove", e => {
			if (held) {
				const d = (held.x - e.clientX) / plotWidth(c) * (held.to - held.from);
				show(held.from + d, held.to + d);
			}
			describe(lane, e);
		});
		for (const end of ["pointerup", "pointercancel"]) {
			c.addEventListener(end, () => { held = null; c.classList.remove("held"); });
		}
		c.addEventListener("pointerleave", () => { tip.style.visibility = "hidden"; });
		c.addEventListener("dblclick", e => zoom(.4, at(e)));
		c.addEventListener("keydown", e => {
			const d = (view.to - view.from) / 5;
			const keys = {
				ArrowLeft: () => show(view.from - d, view.to - d), ArrowRight: () => show(view.from + d, view.to + d),
				"+": () => zoom(.6, middle()), "=": () => zoom(.6, middle()), "-": () => zoom(1.6, middle()), 0: () => show(full.from, full.to),
			};
			if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
		});
	}
	const buttons = { "zoom-in": () => zoom(.5, middle()), "zoom-out": () => zoom(2, middle()), "zoom-all": () => show(full.from, full.to) };
	for (const [id, act] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", act);
	const choose = () => {
		const wanted = new Set([...policies.querySelectorAll(":checked")].map(box => box.value));
		for (const lane of lanes) lane.place.hidden = lane.run.seed !== seed.value || !wanted.has(lane.run.policy);
		redraw();
	};
	// A recording is one run without a seed: there is nothing to choose.
	seed?.addEventListener("change", choose);
	policies?.addEventListener("change", choose);
	// A page becomes narrow or wide only with a change of its size.
	addEventListener("resize", redraw);
	dark.addEventListener("change", redraw);
	// A browser may have kept what was chosen before.
	if (seed) choose();
	shown().forEach(draw);
})();
