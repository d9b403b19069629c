import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// Whether a sidecar is the newest that its store has had. Nothing in the sidecar itself shows that; the store records
/// the newest generation in its pages.
///
/// The row is read below SQLite: nothing is locked, waited for or written, and damage of other pages does not matter.
/// It is raised after both copies of the sidecar are written. So, whenever the row is read, a sidecar that is read
/// later and is older was put back.
package enum SidecarAge: Sendable {
    /// The store records no newer one.
    case newest
    /// `sidecarRolledBack`.
    case rolledBack(StoreError)
    /// None of the first pages fits its keys: it is the sidecar of another store.
    case foreign(path: String, Sidecar)
    /// The store could not be read, for this reason.
    case unknown(String)

    /// - Parameter choice: The sidecar, authenticated by a key.
    package init(_ path: String, _ choice: AuthenticatedSidecar) {
        // The key of a direct store does not depend on a secret of its sidecar.
        guard choice.sidecar.slotted != nil else {
            self = .newest
            return
        }
        do {
            guard let remembered = try Self.remembered(path, choice),
                choice.sidecar.isRolledBack(storeRemembersGeneration: remembered)
            else {
                self = .newest
                return
            }
            // Another process may have changed the keys since the sidecar was read.
            let files = SidecarFiles(databasePath: StorePaths(path).database)
            let newest = try files.choose(files.read(), unlock: { _ in choice.keys })?.sidecar ?? choice.sidecar
            do throws(StoreError) {
                try newest.requireCurrent(storeRemembersGeneration: remembered, of: path)
                self = .newest
            } catch {
                self = .rolledBack(error)
            }
        } catch {
            let health = KeyHealth(StorePaths(path), choice.sidecar)
            let isOwn = health.isOwnSidecar == true
            // A rotation may have given the store other keys since the sidecar was read.
            let isUnchanged = (try? KeyChange(of: path).requireNone(since: choice)) != nil
            let mayBeOther = !isOwn || health.isRotatedSince || choice.sidecar.epoch > 1
            let isForeign = mayBeOther && isUnchanged && (try? Self.fitsNoPage(path, choice)) == true
            self = isForeign ? .foreign(path: path, choice.sidecar) : .unknown(ToolError.explanation(of: error))
        }
    }

    /// Whether none of the first pages of a database is authentic under the keys of a sidecar.
    static func fitsNoPage(_ path: String, _ choice: AuthenticatedSidecar) throws -> Bool {
        let pages = try AuthenticPages(path: path, file: RawFile(path), key: choice.pageKey)
        guard pages.pageCount > 0 else { return false }
        for number in 1...min(pages.pageCount, ToolLimits.firstPages) where try pages.page(number) != nil {
            return false
        }
        return true
    }

    /// The finding to report; nil when the sidecar is the newest.
    package var finding: Finding? {
        switch self {
        case .newest: nil
        case .rolledBack(let error):
            Finding(.problem, error.code.name, "\(error.what) \(error.why)", remedy: error.remedy)
        case .foreign(let path, let sidecar): .foreignSidecar(path, sidecar)
        case .unknown(let reason):
            Finding(
                .note, "sidecarNotCompared",
                "whether the sidecar is the newest one could not be checked, because the store cannot be read: "
                    + "\(reason)")
        }
    }

    // MARK: Reading the row

    private static func remembered(_ path: String, _ choice: AuthenticatedSidecar) throws -> UInt64? {
        var polling = Polling.untilSettled()
        while true {
            do {
                return try RollbackTable.generation(of: choice.sidecar.storeID, in: StorePages(path, choice).tables)
            } catch {
                guard polling.sleep() else { throw error }
            }
        }
    }
}

/// The pages of a store at its last commit, decrypted one by one below SQLite, each authenticated by the key.
final class StorePages {
    private let settings: CipherSettings
    private let file: RawFile
    private let log: RawFile?
    private let frames: WALScan?
    private var codec: PageCodec

    /// - Throws: `SystemError`, `PageFormatError`.
    init(_ path: String, _ choice: AuthenticatedSidecar) throws {
        let settings = choice.sidecar.settings
        self.settings = settings
        file = try RawFile(path)
        let wal = StorePaths(path).wal
        let log = try Files.byteCount(wal) ?? 0 > 0 ? RawFile(wal: wal) : nil
        let scan = try log.flatMap { log in
            try WALScan.scan(fileBytes: log.byteCount) { try log.read(at: $0, into: $1) }
        }
        self.log = log
        frames = scan?.header.pageBytes == settings.pageBytes ? scan : nil
        codec = try choice.dataKey.withSecret { secret in
            try PageCodec(dataKey: secret, salt: choice.sidecar.salt.bytes, settings: settings)
        }
    }

    /// The tables in these pages.
    var tables: TableReader {
        get throws {
            let pages = frames?.databasePages ?? 0
            let length = DatabaseLength(fileBytes: try file.byteCount, pageBytes: settings.pageBytes)
            return TableReader(
                pageCount: pages > 0 ? pages : UInt32(clamping: length.wholePages),
                usableBytes: codec.layout.usableBytes, readPage: page)
        }
    }

    /// - Throws: `StoreError` `pageDamaged` when the page is not authentic; `SystemError`.
    private func page(_ number: UInt32) throws -> [UInt8] {
        let (source, offset) = place(of: number)
        let page = try source.bytes(at: offset, count: settings.pageBytes)
        guard page.withUnsafeBytes({ codec.verify($0, number: number) }) else {
            throw StoreError(
                .pageDamaged(number), what: "Page \(number) of \"\(file.path)\" does not fit the key.",
                why: "It is damaged, or was written while it was read.", remedy: "Run cipherctl verify on the store.")
        }
        var plain = page
        try page.withUnsafeBytes { page in
            try plain.withUnsafeMutableBytes { try codec.decrypt(page, number: number, into: $0) }
        }
        return plain
    }

    private func place(of number: UInt32) -> (source: RawFile, offset: Int) {
        guard let log, let frames, let frame = frames.lastFrames[number] else {
            return (file, PageLayout.offset(ofPage: number, pageBytes: settings.pageBytes))
        }
        return (log, frames.pageOffset(ofFrame: frame))
    }
}
