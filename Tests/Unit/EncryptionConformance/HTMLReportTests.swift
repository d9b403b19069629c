import EncryptionConformance
import Foundation
import TestKit
import Testing

@Suite("The report in HTML")
struct HTMLReportTests {
    private let fixture = ConformanceFixture()

    private func damagedReport() throws -> Conformance.Report {
        try fixture.makeStore()
        for page in [3, 30, 31] { try fixture.poke(at: (page - 1) * 4096 + 99, [1, 2, 3, 4]) }
        return try fixture.run()
    }

    @Test("it is well-formed, refers to nothing outside, and names every check and page in text")
    func structure() throws {
        let report = try damagedReport()
        let html = report.html
        #expect(try XMLText.isWellFormed(html.replacing("<!DOCTYPE html>\n", with: "")))
        for reference in ["http:", "https:", "src=", "@import", "url(", "//"] {
            #expect(!html.contains(reference), "\(reference)")
        }
        for check in Check.allCases { #expect(html.contains("<tr id=\"\(check.rawValue)\">")) }
        #expect(html.components(separatedBy: "role=\"gridcell\"").count - 1 == report.map.cells.count)
        #expect(html.contains("aria-label=\"page 3: damaged, bytes 8192 to 12287, "))
        #expect(
            html.contains(
                "<tr><td><span class=\"c damaged\" style=\"--e:100%\">!</span></td><th scope=\"row\">damaged</th><td>3</td></tr>"
            ))
        // The map clips what is outside of it: the outline of a cell at its edge is not.
        #expect(html.contains(".map{padding:3px;"))
        // Verdicts are text, without a script.
        #expect(html.components(separatedBy: "<script>").first?.contains("Not conformant") == true)
    }

    @Test("names of files cannot break out of it")
    func names() throws {
        try fixture.makeStore()
        let folder = fixture.folder.path("<b>&\"'")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for ending in ["", "-sidecar", "-sidecar.bak"] {
            try FileManager.default.copyItem(atPath: fixture.path + ending, toPath: folder + "/a.db" + ending)
        }
        let report = try Conformance(of: StoreFile(folder + "/a.db", unlockedBy: fixture.source)).run()
        #expect(!report.html.contains("<b>&\""))
        #expect(try XMLText.isWellFormed(report.html.replacing("<!DOCTYPE html>\n", with: "")))
        #expect(try XMLText.isWellFormed(report.junit))
    }

    private static let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    // A browser without network: a reference to anything would fail, and be in its log.
    @Test(
        "a browser opens it without network and without an error in its console",
        .enabled(if: chromium != nil, "chromium is not installed"))
    func browser() throws {
        let file = fixture.folder.path("report.html")
        let report = try damagedReport()
        try report.html.write(toFile: file, atomically: true, encoding: .utf8)
        let (text, log) = try open(file, "--dump-dom")
        #expect(text.contains("Not conformant") && text.contains("aria-label=\"page 30: damaged"))
        let complaints = log.split(separator: "\n").filter { $0.contains("CONSOLE") || $0.contains("ERR_") }
        #expect(complaints.isEmpty, "\(complaints)")
        // The same browser does report an error of a script.
        try report.html.replacing("</main>", with: "</main><script>nothing.at.all()</script>")
            .write(toFile: file, atomically: true, encoding: .utf8)
        #expect(try open(file, "--dump-dom").log.contains("CONSOLE"))
    }

    /// Moves to the last cell of the first row, then to the last cell, and says what is seen.
    private static let look = """
        <script>(function(){var cells=document.querySelectorAll('.map .c');
        function press(at,key){cells[at].focus();
        cells[at].dispatchEvent(new KeyboardEvent('keydown',{key:key,bubbles:true}))}
        press(62,'ArrowRight');var cell=document.activeElement.getBoundingClientRect();
        var number=document.querySelector('.from').getBoundingClientRect();
        var isSeen=cells[63]===document.activeElement&&cell.right<=window.innerWidth&&number.left>=0;
        press(0,'End');var label=getComputedStyle(document.activeElement,'::after');
        var isLast=document.activeElement===cells[cells.length-1];
        document.title='LOOK '+document.hasFocus()+' '+isSeen+' '+isLast+' '+label.position+' '+label.bottom}())</script>
        """

    @Test(
        "the label of a focused cell is in the window whatever its row, and page numbers stay",
        .enabled(if: chromium != nil, "chromium is not installed"))
    func focus() throws {
        let file = fixture.folder.path("report.html")
        try damagedReport().html.replacing("</body>", with: Self.look + "</body>")
            .write(toFile: file, atomically: true, encoding: .utf8)
        var text = ""
        // A window that the browser has not given the focus yet shows no focused cell.
        for _ in 0..<10 where !text.contains("<title>LOOK true ") {
            text = try open(file, "--dump-dom", "--window-size=700,500").text
        }
        #expect(text.contains("<title>LOOK true true true fixed 16px</title>"))
    }

    // Story: in a window of 320 px the evidence was wholly outside, and the page scrolled sideways.
    @Test(
        "it fits a window of 320 px: only the map scrolls sideways",
        .enabled(if: chromium != nil, "chromium is not installed"))
    func narrow() throws {
        let html = try damagedReport().html
        #expect(html.contains("th,td{overflow-wrap:anywhere;"))
        let stacked = ".checks,.checks tbody,.checks tr,.checks th,.checks td{display:block}"
        #expect(html.contains("@media (max-width:40rem){\(stacked)"))
        let tell =
            "<script>window.onload=function(){var page=document.documentElement;"
            + "parent.postMessage('WIDTH '+page.scrollWidth+' of '+page.clientWidth,'*')}</script></body>"
        try html.replacing("</body>", with: tell)
            .write(toFile: fixture.folder.path("inner.html"), atomically: true, encoding: .utf8)
        for width in [320, 500] {
            let file = fixture.folder.path("outer.html")
            let frame = "<iframe src=\"inner.html\" style=\"border:0;width:\(width)px;height:600px\"></iframe>"
            let listen = "<script>window.onmessage=function(event){document.title=event.data}</script>"
            try "<!DOCTYPE html><title>-</title>\(listen)\(frame)"
                .write(toFile: file, atomically: true, encoding: .utf8)
            let text = try open(file, "--dump-dom", "--virtual-time-budget=5000").text
            let found = text.firstMatch(of: #/WIDTH (\d+) of (\d+)/#)
            let (scrolled, seen) = (found.flatMap { Int($0.1) }, found.flatMap { Int($0.2) })
            #expect(try #require(scrolled, "\(text)") <= #require(seen), "\(width)")
        }
    }

    private func open(_ file: String, _ options: String...) throws -> (text: String, log: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(Self.chromium))
        process.arguments =
            [
                "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
                "--proxy-server=127.0.0.1:9", "--disable-background-networking", "--no-first-run",
                "--user-data-dir=\(fixture.folder.path("profile"))",
            ] + options + ["file://" + file]
        let (output, errors) = (fixture.folder.path("output.txt"), fixture.folder.path("errors.txt"))
        for path in [output, errors] { _ = FileManager.default.createFile(atPath: path, contents: nil) }
        process.standardOutput = FileHandle(forWritingAtPath: output)
        process.standardError = FileHandle(forWritingAtPath: errors)
        try process.run()
        process.waitUntilExit()
        return (
            try String(contentsOfFile: output, encoding: .utf8),
            String(decoding: try Data(contentsOf: URL(fileURLWithPath: errors)), as: UTF8.self)
        )
    }
}
