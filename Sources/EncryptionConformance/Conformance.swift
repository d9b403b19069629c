import CipherStore
import Foundation
import KeyCustody
import StoreTools

/// Holds a store against every ``Check``.
///
/// ```swift
/// @Test func storeIsEncrypted() throws {
///     let report = try Conformance(of: StoreFile("app.db", unlockedBy: .keyFile(path: "app.key"))).run()
///     #expect(report.isConformant, "\(report)")
/// }
/// ```
///
/// The store may be in use. Nothing in it is changed, unless ``StoreUnderTest/allowsCanary`` permits a marker. Attacks
/// are made on a sample store in the folder of temporary files.
public struct Conformance: StoreTool {
    private let store: any StoreUnderTest
    private let key: ToolKey

    public init(of store: any StoreUnderTest) {
        self.store = store
        let source = store.keySource
        key = ToolKey(source: { source }, read: { try UnlockedKey($0) })
    }

    /// - Parameter key: Where the key comes from, instead of the source of the store.
    package init(of store: any StoreUnderTest, key: ToolKey) {
        self.store = store
        self.key = key
    }

    /// The results of all checks.
    public struct Report: Sendable {
        /// The database file.
        public let path: String
        /// Each check once, in the order of ``Check``.
        public let results: [CheckResult]
        /// The kind of each page of the file.
        public let map: FileMap
        /// Pages that are not authentic.
        public let damagedPages: PageRanges
        /// The version of SQLCipher with which the checks ran; nil where the library has no codec.
        public let cipherVersion: String?
        /// The version of SQLite within it.
        public let sqliteVersion: String
        /// When the checks began.
        public let date: Date
        /// How long they took.
        public let duration: Duration
        /// The notices of opening the store.
        public let notices: [String]

        /// Whether no check failed.
        public var isConformant: Bool { failures.isEmpty }
        /// Whether a check could not be made for a reason that can be removed: its remedy says how.
        public var isIncomplete: Bool { results.contains { $0.verdict == .notApplicable && $0.remedy != nil } }
        /// Whether a check passed that has a remedy: a full-text index contradicts itself, and no row is damaged.
        public var needsAttention: Bool { results.contains { $0.verdict == .pass && $0.remedy != nil } }
        /// The checks that failed.
        public var failures: [CheckResult] { results.filter { $0.verdict == .fail } }

        /// The result of a check.
        public subscript(check: Check) -> CheckResult? { results.first { $0.check == check } }

        /// How many checks have a verdict.
        public func count(_ verdict: Verdict) -> Int { results.count { $0.verdict == verdict } }
    }

    /// - Throws: `StoreError` `noSuchStore`, `wrongKey`, `rotationPending`, and the errors of its sidecar; `keyRotated`
    ///   or `storeMoved` when the store was given another key or was replaced meanwhile, `saltMissing` when its sidecar
    ///   was removed; `ToolError` `sparse`, and `noSample` where no sample store can be made; `SystemError`;
    ///   `CancellationError`. Every fault of the store itself is in the report.
    public func perform(_ run: ToolRun) throws -> Report {
        let (date, start) = (Date(), ContinuousClock.now)
        try ExaminedFile.requireSuitable(BackupBundle.database(meantBy: store.path))
        let unlocked = try key.unlocked()
        // The key may have come from a command or a prompt.
        try run.check()
        let file = try ExaminedFile(store.path, unlocked, onNotice: run.notice)
        let findings = Result { try self.findings(about: file, unlocked, run) }
        try run.check()
        // A rotation that ended meanwhile explains what does not fit.
        try file.requireCurrent()
        let (checks, map, damaged) = try findings.get()
        return Report(
            path: file.path, results: checks, map: map, damagedPages: damaged,
            cipherVersion: SQLiteLibrary.cipherVersion, sqliteVersion: SQLiteLibrary.sqliteVersion, date: date,
            duration: .now - start, notices: run.notices)
    }

    private func findings(
        about file: ExaminedFile, _ unlocked: UnlockedKey, _ run: ToolRun
    ) throws -> ([CheckResult], FileMap, damaged: PageRanges) {
        let isStore = if case .store = file.form { true } else { false }
        let attacks = AttackChecks(store: store, isStore: isStore)
        defer { attacks.finish() }
        if case .failure(let error) = attacks.sample, SQLiteLibrary.cipherVersion != nil {
            throw Self.noSample(file.path, error)
        }
        let modes = FileChecks(file: file).fileModes()
        let survey = try PageSurvey(layout: file.layout)
        let pages = try PageChecks(file: file, store: store, survey: survey, run: run).results()
        var results = pages.results + [modes]
        results += FileChecks(file: file, refusal: pages.refusal).results()
        try run.check()
        results += try UseChecks(
            file: file, store: store, key: unlocked, sample: attacks.sample, refusal: pages.refusal, run: run
        ).results()
        try run.check()
        results += attacks.results()
        let order = Dictionary(uniqueKeysWithValues: Check.allCases.enumerated().map { ($1, $0) })
        return (results.sorted { order[$0.check] ?? 0 < order[$1.check] ?? 0 }, pages.map, pages.damaged)
    }

    /// Without a sample no attack is made and no connection is examined: nothing could be called conformant.
    private static func noSample(_ path: String, _ error: any Error) -> ToolError {
        ToolError(
            .noSample, what: "\"\(path)\" was not checked.",
            why: "No sample store could be made in \"\(SampleStore.parent)\": \(ToolError.explanation(of: error))",
            remedy: "Set TMPDIR to a folder in which this user may make files, with 2 MB to spare.")
    }

    /// Removes the sample stores of this process, and ends it: no other one is made in between.
    package static func removeSamples(andThen end: () -> Never) -> Never { SampleStore.removeAll(andThen: end) }
}

extension Conformance.Report: CustomStringConvertible {
    /// The failures, or that there are none.
    public var description: String {
        let counts = Verdict.allCases.map { "\(count($0)) \($0.rawValue)" }.joined(separator: ", ")
        return
            ([isConformant ? "\(path) is conformant: \(counts)" : "\(path) is not conformant: \(counts)"]
            + failures.map(\.description)).joined(separator: "\n")
    }
}
