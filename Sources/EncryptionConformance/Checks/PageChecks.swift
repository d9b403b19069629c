import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
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
        /// The error of an opening that concerns the sidecar.
        var refusal: StoreError?
    }

    /// The known facts about the content.
    private enum Content {
        case verified(StoreVerification.Report)
        /// Not asked for, for a reason that another check reports.
        case unasked(String)
        /// The store cannot be opened here, for a reason that says nothing about its content.
        case unavailable([String], remedy: String)
        /// The store cannot be opened, and no other check says why.
        case refused([String], remedy: String)
    }

    /// - Throws: The errors of opening the store that are not damage; `SystemError`, `CancellationError`.
    func results() throws -> Outcome {
        switch file.form {
        case .plain: return try plain()
        case .store(let choice):
            do {
                let report = try verification.perform(run, choice)
                return try encrypted(report.scan, choice.pageKey, .verified(report))
            } catch let error as StoreError where ![.rotationPending, .storeMoved].contains(error.code) {
                return try refused(error, file.pageKey ?? choice.pageKey)
            } catch let error as DatabaseError where [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode) {
                let message = error.message ?? error.description
                return try scanned(
                    choice.pageKey, .refused(["SQLite cannot read the database: \(message)"], remedy: Self.compare))
            }
        case .sqlCipher(let key): return try scanned(key, .unasked("the file is not a store: SQLite was not asked"))
        }
    }

    /// A store that the library refuses to open: its pages are examined as well.
    private func refused(_ error: StoreError, _ key: PageKey) throws -> Outcome {
        let isOfSidecar = [
            .sidecarRolledBack, .foreignSidecar, .sidecarDamaged, .sidecarForged, .sidecarAhead, .saltMissing,
        ].contains(error.code)
        let isMomentary = if case .keyRotated = error.code { true } else { error.code == .storeInUse }
        if isMomentary || key.settings.plaintextHeaderBytes == 0 {
            // The check of the header says why, or the end of the run.
            return try scanned(key, .unasked("the library refuses it: \(error.what)"))
        }
        if error.code == .walMissing {
            return try scanned(
                key, .unavailable(["not checked: \(error.what)", error.why], remedy: error.remedy))
        }
        if isOfSidecar {
            return try scanned(key, .unasked("the library refuses it: \(error.what)"), refusal: error)
        }
        return try scanned(key, .refused(["the library refuses it: \(error.what)", error.why], remedy: error.remedy))
    }

    private func scanned(_ key: PageKey, _ content: Content, refusal: StoreError? = nil) throws -> Outcome {
        let scan = try StoreScan(path: file.path, file: file.file, key: key, run: run, inspector: survey)
            .authenticate(pageCount: nil)
        return try encrypted(scan, key, content, refusal: refusal)
    }

    private var verification: StoreVerification {
        // The key is known: the source is not read again.
        var tool = StoreVerification(file.path, unlockedBy: store.keySource)
        tool.inspector = survey
        tool.configuration = store.configuration
        return tool
    }

    // MARK: Encrypted files

    private func encrypted(
        _ scan: StoreScan.Report, _ key: PageKey, _ content: Content, refusal: StoreError? = nil
    ) throws -> Outcome {
        let former = try pagesUnderFormerKeys(scan.damagedPages)
        var drawing = MapDrawing(
            survey: survey, pageBytes: key.settings.pageBytes,
            pageCount: max(scan.pagesChecked, Int(scan.missingPages.ranges.last?.upperBound ?? 0)))
        drawing.damaged = scan.damagedPages
        drawing.missing = scan.missingPages
        drawing.former = former
        drawing.damagedFrames = scan.damagedFrames
        drawing.zero = scan.wipedPages
        drawing.free = scan.freeList.pages
        drawing.frameCount = scan.framesChecked
        drawing.log = scan.pagesInWAL
        let results = [
            pageResult(scan, key, refusal), frameResult(scan, content),
            contentResult(scan, content), formerResult(scan, former), vectorResult(), ciphertextResult(),
        ]
        return Outcome(results: results, map: drawing.map(), damaged: scan.damagedPages, refusal: refusal)
    }

    private func pageResult(_ scan: StoreScan.Report, _ key: PageKey, _ refusal: StoreError?) -> CheckResult {
        let bytes = key.settings.pageBytes
        let problems =
            scan.damagedPages.lines("not authentic", pageBytes: bytes)
            + scan.wipedPages.lines("all zeros", pageBytes: bytes)
            + scan.missingPages.lines("missing", pageBytes: bytes)
        if scan.pagesChecked == 0, problems.isEmpty {
            return CheckResult(.pages, .notApplicable, "the file has no page")
        }
        let zeros = scan.zeroPages.count
        var passing = [
            CountText.text(scan.pagesChecked - zeros, "page was", "pages were")
                + " authenticated by HMAC under the data key"
        ]
        if zeros > 0 { passing.append("\(Self.pages(zeros, "free ")) of zeros: never written, or wiped") }
        if !scan.supersededPages.isEmpty {
            passing.append(
                CountText.text(scan.supersededPages.count, "damaged page has", "damaged pages have")
                    + " an intact image in the WAL")
        }
        return CheckResult(
            .pages, findings: problems, passing: passing,
            remedy: refusal?.code == .foreignSidecar
                ? "Put the right sidecar in its place first: only with it can the pages be authenticated."
                : "Restore the store from a backup; cipherctl salvage copies what is still authentic.")
    }

    private static func pages(_ count: Int, _ kind: String = "") -> String {
        CountText.text(count, "\(kind)page")
    }

    private func frameResult(_ scan: StoreScan.Report, _ content: Content) -> CheckResult {
        var notes: [String] = []
        if case .verified(let report) = content, let loss = report.walLoss { notes = [loss.note] }
        let damaged = scan.damagedFrames.map { "frame \($0.number) (page \($0.page)) is not authentic" }
        if case .verified(let report) = content, let loss = report.walLoss, loss.needsAttention {
            let remedy = loss.remedy(for: file.path)
            return CheckResult(
                .walFrames, .fail, damaged + notes, remedy: "\(remedy.prefix(1).uppercased())\(remedy.dropFirst()).")
        }
        if scan.framesChecked == 0 {
            return CheckResult(.walFrames, .notApplicable, ["the WAL holds no committed frame"] + notes)
        }
        return CheckResult(
            .walFrames, findings: damaged.isEmpty ? [] : damaged + notes,
            passing: ["\(Self.frames(scan.framesChecked)) authenticated"] + notes,
            remedy: "Restore the store from a backup.")
    }

    private static func frames(_ count: Int) -> String {
        count == 1 ? "1 committed frame was" : "\(count) committed frames were"
    }

    private func contentResult(_ scan: StoreScan.Report, _ content: Content) -> CheckResult {
        let report: StoreVerification.Report
        switch content {
        case .unasked(let reason): return CheckResult(.content, .notApplicable, reason)
        case .unavailable(let reasons, let remedy):
            return CheckResult(.content, .notApplicable, reasons, remedy: remedy)
        case .refused(let findings, let remedy): return CheckResult(.content, .fail, findings, remedy: remedy)
        case .verified(let found): report = found
        }
        guard scan.isClean else {
            return CheckResult(.content, .notApplicable, "pages are damaged, so SQLite was not asked")
        }
        if report.integrity == nil, FileChecks(file: file).header().verdict == .fail {
            return CheckResult(.content, .notApplicable, "the header is damaged, so SQLite was not asked")
        }
        // The check of the header reports its problems.
        let isOfHeader = { (problem: String) in ["byte ", "bytes ", "the header "].contains { problem.hasPrefix($0) } }
        // And that of the frames, of a WAL with which nobody opens the store.
        let problems = report.walLoss?.preventsOpening == true ? [] : report.problems.filter { !isOfHeader($0) }
        if problems.isEmpty, report.integrity == nil {
            return CheckResult(.content, .notApplicable, "SQLite was not asked")
        }
        let faults = report.fullTextFaults.map { "\($0.what): \($0.remedy(file.path))" }
        if !problems.isEmpty { return CheckResult(.content, .fail, problems + faults, remedy: Self.compare) }
        return CheckResult(
            .content, .pass,
            ["integrity_check: \(report.integrity?.joined(separator: ", ") ?? "")"]
                + report.notChecked.map { CheckResult.notChecked + $0 }
                + (report.foreignKeyViolations == 0 ? ["foreign_key_check: ok"] : report.impossible)
                // SQLite permits such rows while foreign_keys is off: as for a verification they are no damage.
                + report.orphans.map(\.text)
                + faults,
            // No row is damaged: as for a verification such an index needs attention.
            remedy: report.fullTextFaults.contains(where: \.isDamage) ? "Make the index again." : nil)
    }

    private static let compare = "Compare with the last backup."

    // MARK: Former keys

    private func pagesUnderFormerKeys(_ damaged: PageRanges) throws -> PageRanges {
        guard !store.formerKeys.isEmpty, let current = file.pageKey else { return PageRanges() }
        var found: Set<UInt32> = []
        for former in store.formerKeys {
            var settings = current.settings
            settings.plaintextHeaderBytes = former.plaintextHeaderBytes
            let key = PageKey(try DataKey(former.secret), salt: former.salt, settings: settings)
            var codec = try PageCodec(keys: PageKeys(key))
            for page in damaged.ranges.lazy.joined().prefix(ConformanceLimits.formerKeyPages) {
                let offset = PageLayout.offset(ofPage: page, pageBytes: settings.pageBytes)
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
        let authentic = scan.pagesChecked - scan.damagedPages.count - scan.zeroPages.count
        return CheckResult(
            .formerKeys,
            findings: former.lines(
                "authentic under a former key", pageBytes: file.pageKey?.settings.pageBytes ?? 4096),
            passing: [
                "\(CountText.text(authentic, "page is", "pages are")) authentic under the present key, so under no other; "
                    + "\(scan.damagedPages.count) others were tried with \(store.formerKeys.count) former keys"
            ],
            remedy: "Rotate the store: cipherctl rotate")
    }

    // MARK: Statistics

    private func vectorResult() -> CheckResult {
        let (repeated, compared, share) = survey.repeatedVectors()
        guard compared > 0 else { return CheckResult(.vectors, .notApplicable, "the file has no page") }
        let sample = share > 1 ? ", one of \(share) of all" : ""
        return CheckResult(
            .vectors, findings: repeated, passing: ["\(compared) vectors were compared\(sample)"],
            remedy: "Whatever wrote these pages does not make a random vector for each write: replace it, and rotate.")
    }

    private func ciphertextResult() -> CheckResult {
        let uneven = survey.unevenPages
        let (bytes, deviations) = survey.spread
        guard bytes > 0 else { return CheckResult(.ciphertext, .notApplicable, "the file has no page") }
        var findings: [String] = []
        if uneven.count > 0 {
            let list = uneven.first.map(String.init).joined(separator: ", ")
            findings.append(
                "\(Self.pages(uneven.count)) \(uneven.count == 1 ? "is" : "are") not random: \(list)"
                    + (uneven.count > uneven.first.count ? ", ..." : ""))
        }
        // Six deviations: once in a thousand million files.
        if bytes >= 65_536, abs(deviations) > 6 {
            findings.append(
                "all pages together are \(CountText.text(Int(abs(deviations)), "deviation")) from random bytes")
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
                    .pages, .fail, "no page is encrypted: \(CountText.text(count, "page")) of plain SQLite",
                    remedy: "Encrypt it: cipherctl import"), ciphertextResult(),
            ] + nothing.map { CheckResult($0, .notApplicable, "the file is not encrypted") }
        return Outcome(results: results, map: drawing.map())
    }
}

extension FormerKey {
    /// The bytes of the data key.
    var secret: SecretBytes { bytes.bytes }
}
