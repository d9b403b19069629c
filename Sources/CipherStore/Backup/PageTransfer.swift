import CipherDatabase
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import Synchronization

/// Copies the encrypted pages of a database as they are, and reads copies back: every page is authenticated during the
/// copy, and none is decrypted.
struct PageTransfer: Sendable {
    let key: PageKey
    let pages: UInt32
    let watch: BackupWatch

    private var pageBytes: Int { key.settings.pageBytes }
    private var workers: Int { max(1, ProcessInfo.processInfo.activeProcessorCount) }

    /// Copies pages into a new file, and syncs it to disk.
    ///
    /// - Parameters:
    ///   - name: The database, for errors.
    ///   - read: Reads from the database as of one moment; called on several threads.
    ///   - new: The new, empty file.
    ///   - reference: The file whose mode, owner and group the new file gets.
    /// - Throws: ``StoreError`` `pageDamaged` for the first page that is not authentic, `CancellationError`,
    ///   ``SystemError``, the errors of `read`.
    func copy(
        _ name: String, read: @escaping PageScan.Reader, to new: consuming FileDescriptor, likeFile reference: String
    ) throws {
        try FileAttributes(of: reference)?.apply(to: new)
        let target = OpenFile(new)
        let report = try scan(.copying) { offset, buffer in
            let count = try read(offset, buffer)
            try target.write(at: offset, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            return count
        }
        if let page = report.firstBad { throw Self.damaged(page, of: name) }
        CrashPoint.reach(.backupPagesCopied)
        try target.synchronize()
    }

    /// Reads a file that no process uses, authenticates every page and hashes the file.
    ///
    /// - Returns: The SHA-256 of the file, and the first page that is not authentic.
    func readBack(_ file: OpenFile) throws -> (sha256: [UInt8], badPage: UInt32?) {
        let hash = Mutex<Result<[UInt8], any Error>?>(nil)
        let found = Mutex<Result<PageScan.Report, any Error>?>(nil)
        // The hash cannot be divided among threads, but it can run beside the authentication.
        Workers.run(2) { part in
            if part == 0 {
                let result = Result { try sha256(of: file) }
                hash.withLock { $0 = result }
            } else {
                let result = Result {
                    try scan(.verifying, workers: max(1, workers - 1)) { try file.read(at: $0, into: $1) }
                }
                found.withLock { $0 = result }
            }
        }
        guard let report = found.withLock({ $0 }), let sum = hash.withLock({ $0 }) else {
            throw BrokenInvariant("One of two parts of the work has no result.")
        }
        return (try sum.get(), try report.get().firstBad)
    }

    /// Reads a file that no process uses and authenticates every page.
    func firstBadPage(of file: OpenFile) throws -> UInt32? {
        try scan(.verifying) { try file.read(at: $0, into: $1) }.firstBad
    }

    private func scan(
        _ phase: BackupProgress.Phase, workers: Int? = nil, read: @escaping PageScan.Reader
    ) throws -> PageScan.Report {
        let report = try PageScan.verifyPages(
            keys: PageKeys(key), pageCount: pages, workers: workers ?? self.workers, read: read,
            progress: { [watch, pages, pageBytes] in watch.tell(phase, $0, of: pages, pageBytes: pageBytes) },
            isCancelled: watch.isCancelled)
        if report.wasCancelled { throw CancellationError() }
        return report
    }

    private func sha256(of file: OpenFile) throws -> [UInt8] {
        var digest = try ContentDigest()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
        defer { buffer.deallocate() }
        var offset = 0
        while true {
            try watch.check()
            let count = try file.read(at: offset, into: buffer)
            digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += count
            if count < buffer.count { return try digest.finish() }
        }
    }

    static func damaged(_ page: UInt32, of name: String) -> StoreError {
        StoreError(
            .pageDamaged(page), what: "Page \(page) of \"\(name)\" is not authentic.",
            why: "It was changed, or written under another key or salt.",
            remedy: "Run cipherctl verify. A backup is made of whole databases only.")
    }
}

extension PageScan.Report {
    /// The first page that is damaged, zero or missing.
    fileprivate var firstBad: UInt32? { (damaged + zero + missing).min() }
}
