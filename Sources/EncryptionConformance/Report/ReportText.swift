import Foundation
import StorePlatform
import StoreTools

extension Conformance.Report {
    /// The report as lines of text.
    public var lines: [String] {
        let width = Check.allCases.map { $0.title.count }.max() ?? 0
        var lines: [String] = []
        for result in results {
            let title = result.check.title.padding(toLength: width, withPad: " ", startingAt: 0)
            lines.append("\(title)  \(result.verdict.words)")
            guard result.verdict != .pass else {
                // A pass says nothing of these.
                lines += result.evidence.filter { $0.hasPrefix(CheckResult.notChecked) }.map { "    \($0)" }
                continue
            }
            lines += result.evidence.map { "    \($0)" }
            if let remedy = result.remedy { lines.append("    -> \(remedy)") }
        }
        let pages = FileMap.Kind.allCases.compactMap { kind in map.counts[kind].map { "\($0) \(kind.words)" } }
        lines.append("pages   \(map.pageCount): \(pages.joined(separator: ", "))")
        lines.append("result  \(isConformant ? "conformant" : "not conformant"): \(summary)")
        return lines
    }

    /// The number of checks by verdict, in words.
    var summary: String {
        Verdict.allCases.filter { count($0) > 0 }.map { "\(count($0)) \($0.words)" }.joined(separator: ", ")
    }

    /// The report as JSON, with stable names: `Docs/Conformance.md` lists them.
    public var json: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Every value of it can be encoded.
        let data = (try? encoder.encode(ReportFile(self))) ?? Data()
        return Self.escapingControls(String(decoding: data, as: UTF8.self))
    }

    /// JSON in which no name controls the terminal: Foundation escapes only the first 32 characters.
    private static func escapingControls(_ json: String) -> String {
        var text = ""
        for scalar in json.unicodeScalars {
            if scalar.steersTerminal {
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// The report as JUnit XML: a known limit and a check that does not apply are skipped tests.
    public var junit: String {
        let skipped = count(.notApplicable) + count(.knownLimit)
        let seconds = String(format: "%.3f", duration / .seconds(1))
        var text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <testsuite name="conformance" tests="\(results.count)" failures="\(failures.count)" errors="0" \
            skipped="\(skipped)" time="\(seconds)" timestamp="\(dateText)">

            """
        for result in results {
            text += "  <testcase classname=\"conformance\" name=\"\(result.check.rawValue)\">\n"
            let detail = result.evidence.joined(separator: "\n").escapedMarkup
            switch result.verdict {
            case .pass: text += "    <system-out>\(detail)</system-out>\n"
            case .fail:
                text += "    <failure message=\"\(result.check.title.escapedMarkup)\">\(detail)</failure>\n"
            case .notApplicable, .knownLimit:
                let first = "\(result.verdict.words): \(result.evidence.first ?? "")".escapedMarkup
                text += "    <skipped message=\"\(first)\"/>\n    <system-out>\(detail)</system-out>\n"
            }
            text += "  </testcase>\n"
        }
        return text + "</testsuite>\n"
    }

    /// When the checks began, in UTC, as in `2026-11-26T08:15:00Z`.
    var dateText: String { WallClock.utc(UInt64(max(0, date.timeIntervalSince1970))) }
}

extension Verdict {
    var words: String {
        switch self {
        case .pass: "pass"
        case .fail: "fail"
        case .notApplicable: "not applicable"
        case .knownLimit: "known limit"
        }
    }
}

extension String {
    /// The text as content or attribute of XML and HTML. Control characters, which XML does not permit, become `?`.
    var escapedMarkup: String {
        var result = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            case "\n", "\t": result.unicodeScalars.append(scalar)
            case _ where scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) || scalar.value & 0xfffe == 0xfffe:
                result += "?"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

/// The form of the report as JSON.
private struct ReportFile: Encodable {
    struct Result: Encodable {
        let name, title, verdict, proves, cannotProve: String
        let evidence: [String]
        let remedy: String?
    }

    struct Range: Encodable {
        let first, last: UInt32
    }

    struct Map: Encodable {
        let pageBytes, pages, walFrames: Int
        let kinds: [String: Int]
        let damaged: [Range]
        let zero: [Range]
    }

    /// Raised when a name changes its meaning or goes.
    let format = 1
    let store: String
    let conformant: Bool
    let date: String
    let seconds: Double
    let cipherVersion: String?
    let sqliteVersion: String
    let verdicts: [String: Int]
    let checks: [Result]
    let map: Map
    let notices: [String]

    enum CodingKeys: String, CodingKey {
        case format, store, conformant, date, seconds, verdicts, checks, map, notices
        case cipherVersion = "sqlcipher_version"
        case sqliteVersion = "sqlite_version"
    }

    init(_ report: Conformance.Report) {
        store = report.path
        conformant = report.isConformant
        date = report.dateText
        seconds = report.duration / .seconds(1)
        cipherVersion = report.cipherVersion
        sqliteVersion = report.sqliteVersion
        verdicts = Dictionary(uniqueKeysWithValues: Verdict.allCases.map { ($0.rawValue, report.count($0)) })
        checks = report.results.map {
            Result(
                name: $0.check.rawValue, title: $0.check.title, verdict: $0.verdict.rawValue, proves: $0.check.proves,
                cannotProve: $0.check.cannotProve, evidence: $0.evidence, remedy: $0.remedy)
        }
        map = Map(
            pageBytes: report.map.pageBytes, pages: report.map.pageCount, walFrames: report.map.frameCount,
            kinds: Dictionary(uniqueKeysWithValues: report.map.counts.map { ($0.key.rawValue, $0.value) }),
            damaged: report.damagedPages.ranges.map { Range(first: $0.lowerBound, last: $0.upperBound) },
            zero: report.map.zeroPages.ranges.map { Range(first: $0.lowerBound, last: $0.upperBound) })
        notices = report.notices
    }
}

extension ReportFile.Result {
    enum CodingKeys: String, CodingKey {
        case name, title, verdict, proves, evidence, remedy
        case cannotProve = "cannot_prove"
    }
}

extension ReportFile.Map {
    enum CodingKeys: String, CodingKey {
        case pages, kinds, damaged, zero
        case pageBytes = "page_bytes"
        case walFrames = "wal_frames"
    }
}
