import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StoreTools

extension ExaminedFile {
    /// The layout of its pages; nil for plain SQLite.
    var layout: PageLayout? {
        get throws { try pageKey.map { try PageLayout($0.settings) } }
    }
}

/// The checks of the pages: one pass over file and WAL serves all of them.
struct PageChecks {
    let file: ExaminedFile
    let store: any StoreUnderTest
    let survey: PageSurvey
    let run: ToolRun

    struct Outcome {
        var results: [CheckResult]
        var map: FileMap
        var damaged = PageRanges()
    }

    /// - Throws: The errors of opening the store that are not damage; `SystemError`, `CancellationError`.
    func results() throws -> Outcome {
        switch file.form {
        case .plain: return try plain()
        case .store(let choice):
            do {
                let report = try verification.perform(run, choice)
                return try encrypted(report.scan, choice.pageKey, report)
            } catch let error as StoreError where ![.rotationPending, .storeMoved].contains(error.code) {
                // The library refuses it, and the other checks say why: its pages are examined all the same.
                return try scanned(file.pageKey ?? choice.pageKey, "the library refuses it: \(error.what)")
            }
        case .sqlCipher(let key): return try scanned(key, "the file is not a store: SQLite was not asked")
        }
    }

    /// - Parameter reason: Why the content is not checked.
    private func scanned(_ key: PageKey, _ reason: String) throws -> Outcome {
        let scan = StoreScan(path: file.path, file: file.file, key: key, run: run, inspector: survey)
        return try encrypted(scan.authenticate(pageCount: nil), key, nil, reason)
    }

    private var verification: StoreVerification {
        // The key is known: the source is not read again.
        var tool = StoreVerification(file.path, unlockedBy: store.keySource)
        tool.inspector = survey
        return tool
    }

    // MARK: Encrypted files

    private func encrypted(
        _ scan: StoreScan.Report, _ key: PageKey, _ report: StoreVerification.Report?, _ reason: String = ""
    ) throws -> Outcome {
        let former = try pagesUnderFormerKeys(scan.damagedPages)
        var drawing = MapDrawing(
            survey: survey, pageBytes: key.settings.pageBytes,
            pageCount: max(scan.pagesChecked, Int(scan.missingPages.ranges.last?.upperBound ?? 0)))
        drawing.damaged = scan.damagedPages
        drawing.missing = scan.missingPages
        drawing.former = former
        drawing.damagedFrames = scan.damagedFrames
        let pages = try AuthenticPages(path: file.path, file: file.file, key: key)
        drawing.free = try pages.freePages().pages
        // As the scan saw it: writers may have continued since.
        drawing.log = scan.pagesInLog
        let results = [
            pageResult(scan, key), frameResult(scan, report), contentResult(scan, report, reason),
            formerResult(scan, former),
            vectorResult(), ciphertextResult(),
        ]
        return Outcome(results: results, map: drawing.map(), damaged: scan.damagedPages)
    }

    private func pageResult(_ scan: StoreScan.Report, _ key: PageKey) -> CheckResult {
        let bytes = key.settings.pageBytes
        let problems =
            scan.damagedPages.lines("not authentic", pageBytes: bytes)
            + scan.missingPages.lines("missing", pageBytes: bytes)
        var passing = ["\(scan.pagesChecked) pages were authenticated by their HMAC under the data key"]
        if !scan.zeroPages.isEmpty { passing.append("\(scan.zeroPages.count) pages of zeros: never written, or wiped") }
        if !scan.supersededPages.isEmpty {
            passing.append("\(scan.supersededPages.count) damaged pages have an intact image in the WAL")
        }
        return CheckResult(
            .pages, findings: problems, passing: passing,
            remedy: "Restore the store from a backup; cipherctl salvage copies what is still authentic.")
    }

    private func frameResult(_ scan: StoreScan.Report, _ report: StoreVerification.Report?) -> CheckResult {
        if scan.framesChecked == 0 {
            return CheckResult(
                .walFrames, .notApplicable, ["the WAL holds no committed frame"] + (report?.unchecked ?? []))
        }
        return CheckResult(
            .walFrames, findings: scan.damagedFrames.map { "frame \($0.number) (page \($0.page)) is not authentic" },
            passing: ["\(scan.framesChecked) committed frames were authenticated"],
            remedy: "Restore the store from a backup.")
    }

    private func contentResult(
        _ scan: StoreScan.Report, _ report: StoreVerification.Report?, _ reason: String
    ) -> CheckResult {
        guard let report else { return CheckResult(.content, .notApplicable, reason) }
        guard scan.isClean, let integrity = report.integrity else {
            return CheckResult(.content, .notApplicable, "pages are damaged, so SQLite was not asked")
        }
        let pageProblems = Set(report.problems.filter { $0.hasPrefix("bytes ") || $0.hasPrefix("byte ") })
        let problems = report.problems.filter { !pageProblems.contains($0) }
        return CheckResult(
            .content, findings: problems,
            passing: ["integrity_check: \(integrity.joined(separator: ", "))"]
                + (report.foreignKeyViolations == 0 ? ["foreign_key_check: ok"] : report.unchecked),
            remedy: "Compare with the last backup.")
    }

    // MARK: Former keys

    private func pagesUnderFormerKeys(_ damaged: PageRanges) throws -> PageRanges {
        guard !store.formerKeys.isEmpty, let current = file.pageKey else { return PageRanges() }
        var found: Set<UInt32> = []
        for former in store.formerKeys {
            var settings = current.settings
            settings.plaintextHeaderBytes = former.plaintextHeaderBytes
            let key = PageKey(try DataKey(former.secret), salt: former.salt, settings: settings)
            var codec = try PageCodec(keys: PageKeys(key))
            for page in damaged.ranges.lazy.joined().prefix(Limits.formerKeyPages) {
                let offset = (Int(page) - 1) * settings.pageBytes
                let bytes = try file.file.bytes(at: offset, count: settings.pageBytes)
                if bytes.withUnsafeBytes({ codec.verify($0, number: page) }) { found.insert(page) }
            }
        }
        return PageRanges(Array(found))
    }

    private func formerResult(_ scan: StoreScan.Report, _ former: PageRanges) -> CheckResult {
        if store.formerKeys.isEmpty {
            return CheckResult(.formerKeys, .notApplicable, "no former key was given")
        }
        return CheckResult(
            .formerKeys,
            findings: former.lines(
                "authentic under a former key", pageBytes: file.pageKey?.settings.pageBytes ?? 4096),
            passing: [
                "\(scan.pagesChecked - scan.damagedPages.count) pages are authentic under the present key, so under no "
                    + "other; \(scan.damagedPages.count) others were tried with \(store.formerKeys.count) former keys"
            ],
            remedy: "Rotate the store: cipherctl rotate")
    }

    // MARK: Statistics

    private func vectorResult() -> CheckResult {
        let (repeated, compared, share) = survey.repeatedVectors()
        let sample = share > 1 ? ", one of \(share) of all" : ""
        return CheckResult(
            .vectors, findings: repeated, passing: ["\(compared) vectors were compared\(sample)"],
            remedy: "Whatever wrote these pages does not make a random vector for each write: replace it, and rotate.")
    }

    private func ciphertextResult() -> CheckResult {
        let uneven = survey.unevenPages
        let (bytes, deviations) = survey.spread
        var findings: [String] = []
        if uneven.count > 0 {
            let list = uneven.first.map(String.init).joined(separator: ", ")
            findings.append(
                "\(uneven.count) pages are not random: \(list)\(uneven.count > uneven.first.count ? ", ..." : "")")
        }
        // Six deviations: once in a thousand million files.
        if bytes >= 65_536, abs(deviations) > 6 {
            findings.append("all pages together are \(Int(abs(deviations))) deviations from random bytes")
        }
        return CheckResult(
            .ciphertext, findings: findings,
            passing: [
                "\(bytes) bytes were sampled; their chi-squared statistic is "
                    + "\(deviations < 0 ? "-" : "")\(Int((abs(deviations) * 10).rounded()) / 10)."
                    + "\(Int((abs(deviations) * 10).rounded()) % 10) deviations from its mean"
            ],
            remedy: "The content of these pages can be read without a key: find out what wrote them.")
    }

    // MARK: Plain files

    private func plain() throws -> Outcome {
        let header = DatabaseHeader(try file.file.bytes(at: 0, count: DatabaseHeader.headerBytes))
        let pageBytes = max(header?.pageBytes ?? 4096, PageLayout.smallestPageBytes)
        let count = try file.file.byteCount / pageBytes
        survey.beginPages(count)
        for page in 0..<count {
            try run.check()
            let bytes = try file.file.bytes(at: page * pageBytes, count: pageBytes)
            bytes.withUnsafeBytes { survey.see(page: UInt32(page + 1), $0, isAuthentic: false) }
        }
        var drawing = MapDrawing(survey: survey, pageBytes: pageBytes, pageCount: count)
        drawing.isPlain = true
        let nothing: [Check] = [.walFrames, .content, .formerKeys, .vectors]
        let results =
            [
                CheckResult(
                    .pages, .fail, "no page is encrypted: all \(count) pages are plain SQLite",
                    remedy: "Encrypt it: cipherctl import"), ciphertextResult(),
            ] + nothing.map { CheckResult($0, .notApplicable, "the file is not encrypted") }
        return Outcome(results: results, map: drawing.map())
    }
}

extension FormerKey {
    /// The bytes of the data key.
    var secret: SecretBytes { bytes.bytes }
}
