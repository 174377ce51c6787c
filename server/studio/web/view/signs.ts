// Shapes of the buttons' signs.

export const SIGNS = {
  play: "M5 3l8 5-8 5z", pause: "M5 3v10M11 3v10", before: "M12 3L6 8l6 5M4 3v10", after: "M4 3l6 5-6 5M12 3v10",
  theme: "M8 2.5a5.5 5.5 0 1 0 .01 0zM8 2.5v11M10 4v8M12 6v4", folded: "M6 4l4 4-4 4", unfolded: "M4 6l4 4 4-4",
};
