#!/bin/sh
# Starts the browser $SCRAPER_CHROMIUM without the pages of its own address bar, two in each window
# that no one sees: they take more time and memory than most pages of shops. It keeps no process ready
# for a next page either, since the next page has a context of its own, to which that one is of no use.
# Chromium heeds only the last list of features, so ours joins the list of Playwright.
for word do
  shift
  case $word in
    --disable-features=*) word=$word,SpareRendererForSitePerProcess,WebUIOmniboxPopup,WebUIOmniboxAimPopup ;;
  esac
  set -- "$@" "$word"
done
exec "$SCRAPER_CHROMIUM" "$@"
