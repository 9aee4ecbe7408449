"""The known challenges and block pages: one row each, and a page each in tests/pages/blocked. Data;
`scraper.rules.blocks` reads it.

A row is a conjunction: everything that it names must match. It names what only the challenge itself
has, never the vendor's sensor, which good pages contain as well: Cloudflare's
`/cdn-cgi/challenge-platform/scripts/jsd/`, DataDome's `tags.js`, PerimeterX's `_pxAppId`, Akamai's
`_abck`, Imperva's `_Incapsula_Resource?SWJIYLWA=…&ns=1`, `x-iinfo`, AWS's `awswaf.com` and the
widgets of reCAPTCHA, hCaptcha and Turnstile. Where an article could quote a text, the row requires
markup.

To add one, write a row here and `tests/pages/blocked/<sign>.http`, from what was seen, not copied.
A page that must not match goes to `tests/pages/ordinary`. Extraction catches a missed challenge; a
wrong match costs a good page its data.
"""

from __future__ import annotations

from dataclasses import dataclass

# Larger pages are recognised only by their headers and their title.
PAGE_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Sign:
    """One challenge or block page. `note`: what it is, and when or where it was seen.

    statuses   the response has one of these statuses; empty: any
    headers    (lower-case name, part of its value); "": any value
    titles     the page's title begins with one of these, in lower case, white space collapsed
    whole      the title is one of `titles`, and nothing more
    body       the page's first `PAGE_MAX` bytes contain each of these; without a title, only a page
               of at most that size is searched
    """

    sign: str
    vendor: str
    note: str
    statuses: frozenset[int] = frozenset()
    headers: tuple[tuple[str, str], ...] = ()
    titles: tuple[bytes, ...] = ()
    body: tuple[bytes, ...] = ()
    whole: bool = False


def _set_of(*statuses: int) -> frozenset[int]:
    return frozenset(statuses)


SIGNS: tuple[Sign, ...] = (
    # --- Recognised by a header, in any language.
    Sign("cloudflare-challenge", "Cloudflare", "any challenge page carries it (Cloudflare's docs, 2023)",
         headers=(("cf-mitigated", "challenge"),)),
    Sign("vercel-challenge", "Vercel", "Attack Challenge Mode, 429 or 403 (Vercel's docs, 2025)",
         headers=(("x-vercel-mitigated", "challenge"),)),
    Sign("vercel-denied", "Vercel", "a firewall rule or its bot protection refuses (Vercel's docs, 2025)",
         headers=(("x-vercel-mitigated", "deny"),)),
    Sign("aws-waf-challenge", "AWS WAF", "202 with a silent script challenge (AWS's docs, 2025)",
         headers=(("x-amzn-waf-action", "challenge"),)),
    Sign("aws-waf-captcha", "AWS WAF", "405 with a puzzle (AWS's docs, 2025)", headers=(("x-amzn-waf-action", "captcha"),)),
    Sign("datadome-header", "DataDome", "a block without its page, as for JSON (seen 2026)", _set_of(403, 405, 429),
         headers=(("x-dd-b", ""),)),
    Sign("kasada", "Kasada", "first request: 429 with a token; good answers may carry it too (seen 2023–2026)",
         _set_of(403, 429), headers=(("x-kpsdk-ct", ""),)),
    Sign("siteground-captcha", "SiteGround", "202 and a redirect by <meta> to /.well-known/sgcaptcha/ (seen 2026)",
         headers=(("sg-captcha", "challenge"),)),
    Sign("sucuri-blocked", "Sucuri", "its firewall's own header (seen 2026)", _set_of(403), headers=(("x-sucuri-block", ""),)),
    # --- Recognised by the title and the page.
    Sign("cloudflare-under-attack", "Cloudflare", "the old five-seconds page, 503 (until 2022)",
         titles=(b"just a moment", b"please wait... | cloudflare"), body=(b"jschl",)),
    Sign("cloudflare-blocked", "Cloudflare", "a firewall rule: Sorry, you have been blocked (seen 2025)",
         titles=(b"attention required! | cloudflare",), body=(b"cf-error-details",)),
    Sign("cloudflare-1xxx", "Cloudflare", "errors 1006–1010, 1020; 1015 comes with 429 and is throttling (its docs, 2025)",
         _set_of(403), titles=(b"access denied",), body=(b"used Cloudflare to restrict access", b"cf-error-details")),
    Sign("perimeterx-denied", "HUMAN (PerimeterX)", "its page where the shop has not styled it (seen 2026)",
         titles=(b"access to this page has been denied",), body=(b"px-captcha",)),
    Sign("perimeterx-walmart", "HUMAN (PerimeterX)", "the shop's own frame around Press & Hold (seen 2026)",
         titles=(b"robot or human?",), body=(b"px-captcha",), whole=True),
    Sign("akamai-denied", "Akamai", "the edge's deny page; with entities for # and . (seen 2026)",
         titles=(b"access denied",), body=(b"You don't have permission to access", b"Reference&#32;&#35;")),
    Sign("akamai-denied-plain", "Akamai", "the same, written plainly (seen 2026)",
         titles=(b"access denied",), body=(b"You don't have permission to access", b"Reference #")),
    Sign("imperva-interruption", "Imperva (Distil)", "Pardon Our Interruption (seen 2026)",
         titles=(b"pardon our interruption",), body=(b"made us think you were a bot",)),
    Sign("ebay-interruption", "eBay", "its browser check, 200 (seen 2026)",
         titles=(b"pardon our interruption",), body=(b"Checking your browser before you access",)),
    Sign("vercel-page", "Vercel", "the checkpoint where headers were stripped on the way (seen 2026)",
         titles=(b"vercel security checkpoint",)),
    Sign("fastly-challenge", "Fastly", "Next-Gen WAF's client challenge (its docs, 2025)",
         titles=(b"client challenge",), body=(b"/_fs-ch-",)),
    Sign("sucuri-page", "Sucuri", "Access Denied – Sucuri Website Firewall (seen 2026)",
         titles=(b"sucuri website firewall",), body=(b"sucuri.net",)),
    Sign("radware", "Radware (ShieldSquare)", "its captcha on the shop's own host (seen 2026)",
         titles=(b"radware",), body=(b"perfdrive.com",)),
    Sign("imunify", "Imunify360", "One moment, please: hosts of WooCommerce shops, 200 (seen 2026)",
         titles=(b"one moment, please",), body=(b"Please wait while your request is being verified",)),
    Sign("litespeed-captcha", "LiteSpeed", "Bot Verification, as at Hostinger (seen 2026)",
         titles=(b"bot verification", b"captcha"), body=(b"/.lsrecap/recaptcha",), whole=True),
    Sign("ddos-guard", "DDoS-Guard", "its script challenge, 403 (seen 2025)",
         titles=(b"ddos-guard",), body=(b"/.well-known/ddos-guard/",)),
    Sign("robot-check", "an unknown captcha", "a page whose title is the question, with a widget to answer it",
         titles=(b"are you a robot?", b"are you a human?", b"are you human?", b"robot check", b"verify you are human",
                 b"verify you are a human", b"please verify you are human", b"please verify you are a human",
                 b"human verification"),
         body=(b"captcha",), whole=True),
    # --- Recognised by the page.
    Sign("cloudflare-page", "Cloudflare", "the challenge where headers were stripped, in any language (seen 2026)",
         body=(b"window._cf_chl_opt", b"/cdn-cgi/challenge-platform/")),
    Sign("datadome", "DataDome", "an interstitial ('rt':'i') or a captcha ('c'), 403 or 200 (seen 2026)",
         body=(b">var dd={", b"captcha-delivery.com")),
    Sign("perimeterx", "HUMAN (PerimeterX)", "Press & Hold within whatever frame (seen 2026)",
         body=(b'id="px-captcha"', b"_pxAppId")),
    Sign("akamai-challenge", "Akamai", "Bot Manager's behavioural challenge, 200 or 428 (seen 2026)",
         body=(b'<div id="sec-if-cpt-container"',)),
    Sign("akamai-crypto", "Akamai", "its proof of work (seen 2026)", body=(b'id="sec-cpt-if"', b"/_sec/cp_challenge/")),
    Sign("akamai-interstitial", "Akamai", "2 KB with a <meta> refresh and a token, 200 (seen 2026)",
         body=(b"bm-verify=", b"triggerInterstitialChallenge")),
    Sign("imperva-incident", "Imperva (Incapsula)", "an iframe, and an incident's number (seen 2026)",
         body=(b"_Incapsula_Resource?", b"Incapsula incident ID")),
    Sign("imperva-challenge", "Imperva (Incapsula)", "the loader with two hashes; on good pages it has one (seen 2026)",
         body=(b"/_Incapsula_Resource?SWJIYLWA=5074a744e2e3d891814e9a2dace20bd4,",)),
    Sign("kasada-page", "Kasada", "its script, where headers were stripped (seen 2026)",
         body=(b"window.KPSDK", b"/ips.js?")),
    Sign("aws-waf-page", "AWS WAF", "the interstitial; good pages have awswaf.com, not this (seen 2026)",
         body=(b"window.gokuProps", b"awsWafCookieDomainList")),
    Sign("amazon-captcha", "Amazon", "Type the characters, or Continue shopping, 200 (seen 2026)",
         body=(b'action="/errors/validateCaptcha"', b'name="amzn"')),
    Sign("amazon-automated", "Amazon", "503: to discuss automated access (seen 2026)", _set_of(503),
         body=(b"api-services-support@amazon.com",)),
    Sign("shopify-checkpoint", "Shopify", "/checkpoint asks for a captcha (seen 2022)",
         body=(b'action="/checkpoint"', b"captcha")),
    Sign("sucuri-challenge", "Sucuri", "You are being redirected, by a script (seen 2026)",
         body=(b"sucuri_cloudproxy_js=''",)),
    Sign("f5-rejected", "F5 (BIG-IP ASM, NGINX App Protect)", "mostly 200 (seen 2026)",
         body=(b"The requested URL was rejected. Please consult with your administrator.", b"support ID is")),
    Sign("f5-challenge", "F5", "Bot Defense's script instead of the page, 200 (seen 2026)",
         body=(b'window["bobcmn"]', b"Please enable JavaScript to view the page content.")),
    Sign("google-sorry", "Google", "unusual traffic, 429 (seen 2026)",
         body=(b"detected unusual traffic from your computer network", b"captcha-form")),
    Sign("queue-it", "Queue-it", "a waiting room on the shop's own host (seen 2025)",
         body=(b'<body data-pageid="queue"', b"queue-it.net")),
    Sign("anubis", "Anubis", "proof of work, in any language, 200 (seen 2026)", body=(b'<script id="anubis_challenge"',)),
    Sign("reblaze", "Reblaze", "its script challenge, 247 (seen 2026)", body=(b"window.rbzns", b"winsocks()")),
    Sign("reblaze-denied", "Reblaze", "its block page (seen 2019)",
         body=(b"urrent session has been terminated", b"do not hesitate to contact us")),
    Sign("stackpath", "StackPath", "closed in 2024; appliances with its texts remain (seen 2022)", _set_of(403),
         body=(b"action that triggered the service and blocked your request",)),
    Sign("wordfence", "Wordfence", "limited by the site owner, in any language (seen 2026)", _set_of(403, 503),
         body=(b"Generated by Wordfence",)),
    Sign("alibaba-punish", "Alibaba (baxia, x5sec)", "slide to verify, 200 (seen 2026)",
         body=(b"/_____tmd_____/", b"x5secdata")),
    Sign("aliyun-challenge", "Alibaba Cloud WAF", "a cookie computed by a script, 200 (seen 2026)",
         body=(b"acw_sc__v2", b"var arg1='")),
    Sign("aliyun-blocked", "Alibaba Cloud WAF", "its block page, 405 (seen 2026)", _set_of(405), body=(b"errors.aliyun.com",)),
    Sign("tencent-edgeone", "Tencent EdgeOne", "cookies computed by a script, 200 or 567 (seen 2026)",
         body=(b"EO_Bot_Ssid", b"__tst_status")),
    Sign("qrator", "Qrator", "its script challenge, 401 or 403 (seen 2026)", _set_of(401, 403), body=(b"/__qrator/qauth",)),
    Sign("mod-security", "ModSecurity", "Not Acceptable! (seen 2025)", _set_of(403, 406),
         body=(b"This error was generated by Mod_Security",)),
    Sign("cloudfront-blocked", "CloudFront", "Request blocked: a WAF rule or a country (seen 2026)", _set_of(403),
         body=(b"Request blocked.", b"Generated by cloudfront")),
    Sign("azure-waf", "Azure Front Door", "The request is blocked (seen 2025)", _set_of(403),
         headers=(("x-azure-ref", ""),), body=(b"The request is blocked",)),
    # --- Recognised by the status.
    Sign("status-403", "403 Forbidden", "what most blocks are; a page that is forbidden to all looks the same", _set_of(403)),
    Sign("status-406", "406 Not Acceptable", "our Accept takes anything, so it is a firewall: ModSecurity, Fastly", _set_of(406)),
    Sign("status-418", "418 I'm a teapot", "servers send it only to refuse bots (seen 2026)", _set_of(418)),
    Sign("status-999", "999 Request denied", "LinkedIn, Yahoo", _set_of(999)),
)  # fmt: skip
