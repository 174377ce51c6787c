// The slider: the run as it was at any time, and as it went.

import { SIGNS } from "./signs";
import { byId, sign } from "../shared/dom";
import { clock } from "../shared/numbers";
import type { App } from "./app";

export class Replay {
  private readonly slider = byId<HTMLInputElement>("slider");
  private readonly speed = byId<HTMLSelectElement>("speed");
  private playing: number | null = null;
  private shape = "";

  constructor(private readonly app: App) {
    byId("before").append(sign(SIGNS.before));
    byId("after").append(sign(SIGNS.after));
    byId("before").onclick = () => this.step(-1);
    byId("after").onclick = () => this.step(1);
    byId("play").onclick = () => this.toggle();
    byId("now").onclick = () => app.goTo(null);
    this.slider.oninput = () => {
      app.goTo(app.run.start + (Number(this.slider.value) / 1000) * (app.end - app.run.start));
      this.pause();
    };
    this.draw();
  }

  draw(): void {
    const { run, view } = this.app;
    const length = this.app.end - run.start;
    const past = this.app.time - run.start;
    if (document.activeElement !== this.slider || view.time === null || this.playing) this.slider.value = String(length > 0 ? (past / length) * 1000 : 1000);
    const told = `${clock(past, length < 10 ? 0.01 : 0.1)} of ${clock(length, length < 10 ? 0.01 : 0.1)}`;
    byId("time").textContent = told;
    this.slider.setAttribute("aria-valuetext", told);
    const live = this.app.following;
    byId("now").hidden = view.time === null;
    byId("now").textContent = live ? "Back to live" : "To the end";
    const play = byId("play");
    const shape = this.playing ? SIGNS.pause : SIGNS.play;
    if (this.shape !== shape) play.replaceChildren(sign((this.shape = shape)));
    play.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }

  toggle(): void {
    if (this.playing) this.pause();
    else this.play();
  }

  private play(): void {
    const { app } = this;
    if (app.time >= app.end - 1e-6) app.goTo(app.run.start);
    let last = performance.now();
    const go = (now: number): void => {
      const length = app.end - app.run.start;
      const speed = Number(this.speed.value) || Math.max(length / 20, 0.001);
      const next = app.time + ((now - last) / 1000) * speed;
      last = now;
      if (next >= app.end) {
        this.pause();
        app.goTo(null);
        return;
      }
      this.playing = requestAnimationFrame(go);
      app.goTo(next);
    };
    this.playing = requestAnimationFrame(go);
    this.draw();
  }

  private pause(): void {
    if (this.playing !== null) cancelAnimationFrame(this.playing);
    this.playing = null;
    this.draw();
  }

  /** To the change before, or the next. */
  step(by: number): void {
    const { app } = this;
    this.pause();
    const times = app.run.changes();
    const past = app.time;
    const next = by > 0 ? times.find((time) => time > past + 1e-4) : times.findLast((time) => time < past - 1e-4);
    if (next !== undefined) app.goTo(next >= app.end ? null : next);
  }
}
