"""Finds text that is too faint against what is behind it (WCAG AA: 4.5, or 3 for large text)."""

FIND_FAINT = """() => {
  const parse = (text) => {
    let m = text.match(/^rgba?\\(([^)]+)\\)$/);
    if (m) {
      const [r, g, b, a = 1] = m[1].split(/[,\\s/]+/).map(Number);
      return [r / 255, g / 255, b / 255, a];
    }
    m = text.match(/^color\\(srgb ([^)]+)\\)$/);
    if (m) {
      const [r, g, b, a = 1] = m[1].split(/[\\s/]+/).map(Number);
      return [r, g, b, a];
    }
    throw new Error("an unknown colour: " + text);
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    let colour = [1, 1, 1, 1];
    for (const layer of layers.reverse()) colour = over(layer, colour);
    return colour;
  };
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim());
    if (!own || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest(".unseen, .skip, svg")) continue;
    const style = getComputedStyle(element);
    const ground = behind(element);
    const text = over(parse(style.color), ground);
    const [high, low] = [light(text), light(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const large = parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 580;
    if (ratio >= (large ? 3 : 4.5)) continue;
    faint.push(`${element.className}: ${element.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return [...new Set(faint)];
}"""
