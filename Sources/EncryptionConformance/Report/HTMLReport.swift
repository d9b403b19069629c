import Foundation
import PageFormat
import StoreTools

extension Conformance.Report {
    /// The report as one page of HTML, which refers to nothing outside of itself. It is well-formed XML as well. Scripts
    /// only move the focus within the map: verdicts, evidence and the map itself need none.
    public var html: String { HTMLReport(report: self).text }
}

/// Writes a report as HTML.
private struct HTMLReport {
    let report: Conformance.Report

    /// Cells of one line of the map.
    private static let columns = 64

    var text: String {
        let title = "Conformance of \(report.path)".escapedMarkup
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8"/>
            <meta name="viewport" content="width=device-width, initial-scale=1"/>
            <meta name="color-scheme" content="light dark"/>
            <link rel="icon" href="data:,"/>
            <title>\(title)</title>
            <style>\(Self.style)</style>
            </head>
            <body>
            <main>
            \(summary)
            \(map)
            \(checks)
            \(legend)
            </main>
            <script>\(Self.script)</script>
            </body>
            </html>

            """
    }

    // MARK: Summary

    private var summary: String {
        let word = report.isConformant ? "Conformant" : "Not conformant"
        let seconds = String(format: "%.2f", report.duration / .seconds(1))
        let counts = Verdict.allCases.map { verdict in
            "<li class=\"\(verdict.rawValue)\"><b>\(report.count(verdict))</b> \(verdict.words)</li>"
        }
        return """
            <header>
            <p class="result \(report.isConformant ? "pass" : "fail")">\(word)</p>
            <h1>\(report.path.escapedMarkup)</h1>
            <ul class="counts">\(counts.joined())</ul>
            <p>\(report.dateText) · \(seconds) s · SQLCipher \((report.cipherVersion ?? "none").escapedMarkup) · SQLite \
            \(report.sqliteVersion.escapedMarkup)</p>
            </header>
            """
    }

    // MARK: Map

    private var map: String {
        guard report.map.pageCount > 0 else { return "" }
        let map = report.map
        let perCell = map.cells.first.map { Int($0.pages.count) } ?? 1
        let scale = perCell == 1 ? "one page" : "\(perCell) pages"
        let rows = stride(from: 0, to: map.cells.count, by: Self.columns).map { first in
            let cells = map.cells[first..<min(first + Self.columns, map.cells.count)]
            let from = cells.first?.pages.lowerBound ?? 1
            return "<div role=\"row\"><span class=\"from\" role=\"rowheader\">\(from)</span>"
                + cells.enumerated().map { cell($1, isFirst: first == 0 && $0 == 0) }.joined() + "</div>"
        }
        return """
            <section aria-labelledby="map-title">
            <h2 id="map-title">Map of the file</h2>
            <p>\(map.pageCount) pages of \(map.pageBytes) bytes; each cell stands for \(scale). Below the colour of a cell, \
            the strip shows how random its bytes look: full for 8 bits a byte. \
            <kbd>Tab</kbd> and the arrow keys move between cells.</p>
            \(kindTable)
            <div class="map" role="grid" aria-label="Pages of the file" aria-readonly="true">
            \(rows.joined(separator: "\n"))
            </div>
            \(damagedPages)
            \(wipedPages)
            \(frames)
            </section>
            """
    }

    private func cell(_ cell: FileMap.Cell, isFirst: Bool) -> String {
        let label = words(cell).escapedMarkup
        let height = cell.entropy.map { Int((max(0, min(8, $0)) / 8 * 100).rounded()) } ?? 0
        let mark = cell.kind.isProblem ? "!" : ""
        return "<span role=\"gridcell\" class=\"c \(cell.kind.rawValue)\" tabindex=\"\(isFirst ? 0 : -1)\" "
            + "title=\"\(label)\" aria-label=\"\(label)\" style=\"--e:\(height)%\">\(mark)</span>"
    }

    private func words(_ cell: FileMap.Cell) -> String {
        let (first, last) = (cell.pages.lowerBound, cell.pages.upperBound)
        let offset = PageLayout.offset(ofPage: first, pageBytes: report.map.pageBytes)
        let end = Int(last) * report.map.pageBytes - 1
        var text = first == last ? "page \(first): \(cell.kind.words)" : "pages \(first) to \(last): "
        if first != last {
            text += cell.count == cell.pages.count ? cell.kind.words : "\(cell.count) \(cell.kind.words)"
        }
        text += ", bytes \(offset) to \(end)"
        if let entropy = cell.entropy { text += String(format: ", %.2f bits a byte", entropy) }
        return text
    }

    /// The map in words, for those who do not see it.
    private var kindTable: String {
        let rows = FileMap.Kind.allCases.compactMap { kind in
            report.map.counts[kind].map { count in
                "<tr><td><span class=\"c \(kind.rawValue)\" style=\"--e:100%\">\(kind.isProblem ? "!" : "")</span></td>"
                    + "<th scope=\"row\">\(kind.words)</th><td>\(count)</td></tr>"
            }
        }
        return """
            <table class="kinds"><caption>Pages by kind</caption>
            <thead><tr><th scope="col">Colour</th><th scope="col">Kind</th><th scope="col">Pages</th></tr></thead>
            <tbody>\(rows.joined())</tbody></table>
            """
    }

    /// The place of the damage, in words.
    private var damagedPages: String {
        list("Damaged pages", report.damagedPages.lines("damaged", pageBytes: report.map.pageBytes))
    }

    private var wipedPages: String {
        list("Pages of zeros", report.map.zeroPages.lines("all zeros", pageBytes: report.map.pageBytes))
    }

    private func list(_ title: String, _ lines: [String]) -> String {
        if lines.isEmpty { return "" }
        let shown = lines.prefix(200).map { "<li>\($0.escapedMarkup)</li>" }.joined()
        let rest = lines.count > 200 ? "<li>and \(lines.count - 200) more</li>" : ""
        return "<details open=\"open\"><summary>\(title)</summary><ul>\(shown)\(rest)</ul></details>"
    }

    private var frames: String {
        guard report.map.frameCount > 0 else { return "<p>The WAL holds no committed frame.</p>" }
        let damaged = report.map.damagedFrames
        let list = damaged.prefix(200).map { "<li>frame \($0.number) (page \($0.page)) is not authentic</li>" }.joined()
        return
            "<p>The WAL holds \(report.map.frameCount) committed frames, of which \(damaged.count) are not authentic.</p>"
            + (damaged.isEmpty ? "" : "<ul>\(list)</ul>")
    }

    // MARK: Checks

    private var checks: String {
        let order: [Verdict] = [.fail, .knownLimit, .pass, .notApplicable]
        let sorted = order.flatMap { verdict in report.results.filter { $0.verdict == verdict } }
        return """
            <section aria-labelledby="checks-title">
            <h2 id="checks-title">Checks</h2>
            <table class="checks">
            <thead><tr><th scope="col">Verdict</th><th scope="col">Check</th><th scope="col">Evidence</th></tr></thead>
            <tbody>
            \(sorted.map(row).joined(separator: "\n"))
            </tbody>
            </table>
            </section>
            """
    }

    private func row(_ result: CheckResult) -> String {
        let evidence = result.evidence.map { "<li>\($0.escapedMarkup)</li>" }.joined()
        let remedy = result.remedy.map { "<p class=\"remedy\">\($0.escapedMarkup)</p>" } ?? ""
        return """
            <tr id="\(result.check.rawValue)"><td><span class="verdict \(result.verdict.rawValue)">\
            \(result.verdict.words)</span></td>
            <th scope="row">\(result.check.title.escapedMarkup)<span class="name">\(result.check.rawValue)</span></th>
            <td><ul>\(evidence)</ul>\(remedy)<details><summary>What this proves</summary>\
            <p>A pass proves: \(result.check.proves.escapedMarkup)</p>\
            <p>It cannot prove \(result.check.cannotProve.escapedMarkup)</p></details></td></tr>
            """
    }

    private var legend: String {
        """
        <footer>
        <p><b>Known limit</b>: nothing within the files can show it; the evidence names what would. <b>Not \
        applicable</b>: the evidence says why the check was not made.</p>
        </footer>
        """
    }
}

extension FileMap.Kind {
    /// Whether it deserves a mark beside its colour.
    fileprivate var isProblem: Bool {
        switch self {
        case .damaged, .former, .missing, .zero, .plain: true
        case .header, .wal, .authentic, .free: false
        }
    }
}

// MARK: Style and script

extension HTMLReport {
    fileprivate static let style = """
        :root{color-scheme:light dark;--back:#fbfbf9;--text:#1d2126;--dim:#5b6470;--line:#d9dce1;--pass:#1b6e3c;\
        --fail:#b3261e;--limit:#8a5a00;--skip:#5b6470;--authentic:#4f8f6b;--free:#c6cfd8;--header:#2f5fb3;\
        --wal:#3f93b5;--damaged:#d3261e;--former:#a64ac9;--missing:#111111;--zero:#8c4a2f;--plain:#e0861a;--strip:#00000055}
        @media (prefers-color-scheme:dark){:root{--back:#14171b;--text:#e7eaee;--dim:#9aa4b1;--line:#333a43;\
        --pass:#6fce93;--fail:#ff8a80;--limit:#f0b95b;--skip:#9aa4b1;--authentic:#3f7a59;--free:#39424d;\
        --header:#5c8fe6;--wal:#3c86a6;--damaged:#ff5147;--former:#c678e6;--missing:#f2f2f2;--zero:#b8734f;\
        --plain:#f0a040;\
        --strip:#ffffff66}}
        body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}
        main{max-width:72rem;margin:0 auto;padding:1.5rem}
        h1{font-size:1.4rem;margin:.2rem 0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2rem 0 .5rem}
        .result{display:inline-block;margin:0;font-weight:700;font-size:1.1rem}
        .result.pass,.verdict.pass,.counts .pass{color:var(--pass)}.result.fail,.verdict.fail,.counts .fail{color:var(--fail)}
        .verdict.known_limit,.counts .known_limit{color:var(--limit)}
        .verdict.not_applicable,.counts .not_applicable{color:var(--skip)}
        .verdict{font-weight:700;white-space:nowrap}
        .counts{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.5rem;padding:0;margin:.5rem 0}
        table{border-collapse:collapse;width:100%}caption{text-align:left;color:var(--dim)}
        th,td{overflow-wrap:anywhere;text-align:left;vertical-align:top;padding:.5rem .6rem;border-bottom:1px solid var(--line)}
        .kinds{width:auto;margin:.5rem 0 1rem}
        .kinds th,.kinds td{overflow-wrap:normal;padding:.2rem .8rem .2rem 0}
        .kinds th{font-weight:400}.checks th[scope=row]{font-weight:600;width:34%}
        .checks ul{margin:0;padding-left:1.1rem}.name{display:block;color:var(--dim);font:13px ui-monospace,monospace}
        .remedy{margin:.4rem 0 0;font-weight:600}details{margin-top:.4rem;color:var(--dim)}summary{cursor:pointer}
        .map{padding:3px;font-size:0;line-height:0;overflow-x:auto;scroll-padding:0 1rem 0 5.4rem}
        .map [role=row]{white-space:nowrap}
        .from{display:inline-block;width:5.2rem;font:12px/18px ui-monospace,monospace;color:var(--dim);\
        vertical-align:top;position:sticky;left:0;z-index:1;background:var(--back)}
        .c{display:inline-block;box-sizing:border-box;width:13px;height:17px;margin:0 1px 1px 0;vertical-align:top;\
        text-align:center;font:700 11px/12px ui-monospace,monospace;color:#fff;\
        background:linear-gradient(var(--strip),var(--strip)) left bottom/var(--e) 4px no-repeat,var(--k)}
        .c:focus,.c:hover{outline:2px solid var(--text);outline-offset:1px;position:relative}
        .c:focus::after{content:attr(aria-label);position:fixed;left:1rem;bottom:1rem;z-index:2;padding:.3rem .5rem;\
        max-width:calc(100vw - 3rem);background:var(--text);color:var(--back);font:13px/1.4 system-ui,sans-serif;\
        white-space:normal}
        .authentic{--k:var(--authentic)}.free{--k:var(--free)}.header{--k:var(--header)}.wal{--k:var(--wal)}
        .damaged{--k:var(--damaged)}.former{--k:var(--former)}.missing{--k:var(--missing)}.zero{--k:var(--zero)}\
        .plain{--k:var(--plain)}
        .missing.c{color:var(--back)}footer{margin-top:2rem;color:var(--dim)}
        /* The cells of a check one below the other: the third column would be outside of a narrow window. */
        @media (max-width:40rem){.checks,.checks tbody,.checks tr,.checks th,.checks td{display:block}\
        .checks thead{display:none}.checks th,.checks td,.checks th[scope=row]{width:auto;border:0;padding:.15rem 0}\
        .checks tr{padding:.5rem 0;border-bottom:1px solid var(--line)}main{padding:1rem}}
        @media print{details{display:block}}
        """

    /// The arrow keys move between the cells of the map.
    fileprivate static let script = """
        (function(){var grid=document.querySelector('.map');if(grid===null){return}
        var cells=Array.prototype.slice.call(grid.querySelectorAll('.c'));var steps={ArrowLeft:-1,ArrowRight:1,\
        ArrowUp:-64,ArrowDown:64,Home:-1e9,End:1e9};
        grid.addEventListener('keydown',function(event){var step=steps[event.key];var at=cells.indexOf(event.target);
        if(step===undefined||at===-1){return}event.preventDefault();
        var to=Math.max(0,Math.min(cells.length-1,at+step));cells[at].tabIndex=-1;cells[to].tabIndex=0;
        cells[to].focus({preventScroll:true});cells[to].scrollIntoView({block:'nearest',inline:'nearest'})});
        }());
        """
}
