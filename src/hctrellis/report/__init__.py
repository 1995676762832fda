"""Reports: what was found, as one HTML page that needs nothing but a browser.

`page.Page` holds the parts of a report as plain values, `page.render` turns them into HTML, and
`figures` draws pictures to be put in the page. Whoever has findings writes the words.
"""
