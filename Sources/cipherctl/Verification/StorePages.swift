import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// The pages of a store at its last commit, decrypted one by one below SQLite, and each proved by the key.
///
/// No connection to the database may be open in this process, nor be opened while it lives (``RawFile``).
final class StorePages {
    private let settings: CipherSettings
    private let file: RawFile
    private let log: RawFile?
    private let frames: WALScan?
    private var codec: PageCodec

    /// - Throws: `SystemError`, `PageFormatError`.
    init(_ path: String, _ choice: SidecarChoice) throws {
        let settings = choice.sidecar.settings
        self.settings = settings
        file = try RawFile(path)
        let wal = StorePaths(path).wal
        let log = try Files.byteCount(wal) ?? 0 > 0 ? RawFile(wal) : nil
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
            let inFile = try file.byteCount / settings.pageBytes
            return TableReader(
                pageCount: pages > 0 ? pages : UInt32(clamping: inFile), usableBytes: codec.layout.usableBytes,
                readPage: page)
        }
    }

    /// - Throws: `StoreError` `pageDamaged` when the page does not authenticate; `SystemError`.
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
            return (file, (Int(number) - 1) * settings.pageBytes)
        }
        return (log, frames.pageOffset(ofFrame: frame))
    }
}
