"""Names of elements, classes and ids that distinguish content from menus, banners and the like."""

import re
from typing import Final


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _any_word(words: str) -> re.Pattern[str]:
    """Return a pattern that matches any of these words as a whole word in a class or an id."""
    return re.compile(rf"(?:^|[\s_-])(?:{'|'.join(words.split())})(?=$|[\s_-])")


NEVER_TEXT: Final = _set(
    "script style noscript template svg canvas iframe object embed audio video map title link meta base"
    " select option textarea input button datalist output progress meter noframes frameset applet portal"
)
# A button in one of these elements is part of the text: it folds the section below.
FOLDED: Final = _set("h1 h2 h3 h4 h5 h6 summary dt legend")
FRAME: Final = _set("nav footer")
FRAME_ROLES: Final = _set("navigation banner contentinfo complementary")
NOISE_ROLES: Final = _set("search menu menubar toolbar tablist dialog alertdialog tooltip")
WHOLE: Final = _set("html body main article")
NAMEABLE: Final = _set(
    "nav footer div section aside ul ol p span form table header details dl figure h2 h3 h4"
)
HEADED: Final = _set("section h2 h3 h4")
CONTAINERS: Final = _set("html body div section main article form center td tr tbody table font span")
UNSHOWN_CLASS: Final = _set(
    "sr-only visually-hidden visuallyhidden screen-reader-text screen-reader-only offscreen is-hidden"
    " u-hidden d-none hidden hide invisible a11y-hidden element-invisible"
)
# Names of elements whose content is never part of the text.
NOISE_NAMES: Final = _any_word(
    "cookies? cookie-?bar cookie-?banner consent gdpr ccpa onetrust newsletter subscribe signup paywall popup"
    " modal overlay lightbox skip-?links? breadcrumbs? pagination pager share sharing sharebar sharedaddy"
    " advert advertisement ads? adsbygoogle sponsor sponsored login search-?form searchbox toc contents-list"
    " noprint printfooter editsection navbox catlinks outbrain taboola language-switcher vote report-post"
    " print-only toolbar site-?notice comment-?form reply-?form respond also-?like"
    " upsell cross-?sell most-?read"
)
# Names of the frame around the text. They count only outside of the part that the page names as its main
# part, and only for elements that are mostly links: sites use these names for parts of the text too.
FRAME_NAMES: Final = _any_word(
    "skip navbar nav navigation topnav subnav mainnav menu megamenu social promo banner masthead"
    " sidebar sidenav rail widgets? footer related recommended recommendations trending feedback tags"
    " tagcloud buttons? actions"
)
FOOTER_NAMES: Final = _any_word("footer")
MAIN_IDS: Final = _set("main content contents main-content maincontent main_content bodycontent")
# Names that mean content although they contain one of the words above: the last word decides, as in
# "sidebar-layout", and the first word may refer to another element, as in "has-sidebar".
CONTENT_NAMES: Final = re.compile(
    r"(?:.*[_-])?(?:article|content|main|body|post|entry|story|recipe|text|layout|wrap|wrapper|page|app|root|grid"
    r"|container|row)|(?:with|has|no|without)[_-].*"
)
NOTES: Final = _any_word(
    "notes? tip warning caution important admonition callout alert info pullquote infobox example"
)
GUTTER: Final = _any_word("lineno linenos line-numbers? gutter linenumber copy copybtn")
LANGUAGE: Final = re.compile(
    r"(?:^|\s)(?:language|lang|highlight-source|highlight|brush:)[-:\s]*([a-z0-9+#_]{1,20})", re.IGNORECASE
)
NO_LANGUAGE: Final = _set("default text none plain plaintext source")
