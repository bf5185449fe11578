// The default theme, with the fonts of the system: no font is downloaded.

import theme from "vitepress/theme-without-fonts";
import "./style.css";

export default theme;
