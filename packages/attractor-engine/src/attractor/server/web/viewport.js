// A pane in which a picture can be dragged and zoomed, by mouse, finger and buttons.

const LEAST = 0.05;
const MOST = 4;
const READABLE = 0.55;
const MARGIN = 16;
const LOWEST = 200;
const HIGHEST = 0.56; // Of the window.

/** Shows `picture`, an element of a natural size of `width` by `height` pixels, in `pane`, at first no smaller
 * than by the factor `least`. */
export class Viewport {
  constructor(pane, picture, width, height, least = READABLE) {
    Object.assign(this, { pane, picture, width, height, least, x: 0, y: 0, scale: 1, touched: false });
    this.pointers = new Map();
    this.moved = false;
    pane.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    pane.addEventListener("pointerdown", (event) => this.down(event));
    pane.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) pane.addEventListener(name, (event) => this.up(event));
    // A drag that ends on a node doesn't select it.
    pane.addEventListener("click", (event) => this.moved && (event.stopPropagation(), event.preventDefault()), true);
    this.observer = new ResizeObserver(() => {
      if (!this.touched && pane.clientWidth !== this.fittedTo) this.fit();
    });
    this.observer.observe(pane);
  }

  close() {
    this.observer.disconnect();
  }

  /** Show the whole picture if it can be read then, else its beginning. */
  fit(least = this.least) {
    const { clientWidth } = this.pane;
    if (!clientWidth) return;
    this.fittedTo = clientWidth;
    this.size(clientWidth);
    const { clientHeight } = this.pane;
    const whole = Math.min((clientWidth - 2 * MARGIN) / this.width, (clientHeight - 2 * MARGIN) / this.height);
    this.scale = Math.min(Math.max(whole, least), 1.1);
    this.x = Math.max((clientWidth - this.width * this.scale) / 2, MARGIN);
    this.y = Math.max((clientHeight - this.height * this.scale) / 2, MARGIN);
    this.draw();
  }

  /** A pane as high as the picture needs, within reason. */
  size(width) {
    const needed = this.height * Math.min(Math.max((width - 2 * MARGIN) / this.width, this.least), 1) + 4 * MARGIN;
    const height = `${Math.round(Math.min(Math.max(needed, LOWEST), window.innerHeight * HIGHEST))}px`;
    if (this.pane.style.height !== height) this.pane.style.height = height;
  }

  /** Zoom by a factor around a point of the pane, by default its middle. */
  zoom(factor, x = this.pane.clientWidth / 2, y = this.pane.clientHeight / 2) {
    const scale = Math.min(Math.max(this.scale * factor, LEAST), MOST);
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.touched = true;
    this.draw();
  }

  pan(x, y) {
    this.x += x;
    this.y += y;
    this.draw();
  }

  /** Move as little as needed for a box, in pixels of the unscaled picture, to be seen. */
  reveal(box) {
    const { clientWidth, clientHeight } = this.pane;
    const left = this.x + box.x * this.scale;
    const top = this.y + box.y * this.scale;
    // To the middle, but not past the picture's ends: what is before one of them is of no use to anybody.
    const nudge = (start, size, room, from, whole) => {
      if (start >= MARGIN && start + size <= room - MARGIN) return 0;
      const middle = room / 2 - (start + size / 2);
      if (whole + 2 * MARGIN <= room) return middle;
      return Math.min(Math.max(from + middle, room - MARGIN - whole), MARGIN) - from;
    };
    const x = nudge(left, box.width * this.scale, clientWidth, this.x, this.width * this.scale);
    const y = nudge(top, box.height * this.scale, clientHeight, this.y, this.height * this.scale);
    if (x || y) this.pan(x, y);
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.apply());
  }

  /** Draw now, for whoever measures. */
  apply() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = null;
    this.picture.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
  }

  wheel(event) {
    // A plain wheel scrolls the page; with Ctrl or ⌘, which a pinch on a touchpad sends too, it zooms.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { left, top } = this.pane.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
  }

  down(event) {
    if (event.button > 0 || event.target.closest("button")) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.moved = false;
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const x = event.clientX - before.x;
    const y = event.clientY - before.y;
    if (!this.moved && Math.hypot(x, y) < 5) return;
    if (!this.moved) this.pane.setPointerCapture(event.pointerId);
    this.moved = true;
    this.touched = true;
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (!other) {
      this.pan(x, y);
      return;
    }
    const { left, top } = this.pane.getBoundingClientRect();
    const was = Math.hypot(before.x - other.x, before.y - other.y) || 1;
    const is = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    this.zoom(is / was, (event.clientX + other.x) / 2 - left, (event.clientY + other.y) / 2 - top);
  }

  up(event) {
    this.pointers.delete(event.pointerId);
  }
}
