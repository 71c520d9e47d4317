// Before the page is drawn: the theme that the reader chose.
try {
  const chosen = localStorage.getItem("ropeway-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* storage is off: the system's theme */ }
