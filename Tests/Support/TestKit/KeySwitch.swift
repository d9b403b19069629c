import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// Plays the part of who switches a store to a new key, without its care for crashes: with everybody out, every page is
/// encrypted anew. The store has the raw key of ``TestKeys``.
package struct KeySwitch {
    private let path: String
    private let files: SidecarFiles

    package init(_ path: String) {
        self.path = path
        files = SidecarFiles(databasePath: path)
    }

    /// Asks, waits until everybody is out, switches, and lets everybody go on.
    ///
    /// - Returns: Whether all were out in time.
    package func run(within limit: Duration = .seconds(20)) throws -> Bool {
        guard let request = try YieldRequest.ask(StorePaths(path)) else { return false }
        defer { request.end() }
        guard let lease = try request.exclusiveLease(until: .now + limit) else { return false }
        defer { lease.release() }
        try exchange()
        return true
    }

    /// Puts a file with a new key in the store's place. Nobody may have the store open.
    ///
    /// - Parameter pause: Called when the sidecar of a store with slots says that it is switched, and the file is the former.
    package func exchange(pausing pause: () throws -> Void = {}) throws {
        let material = try TestKeys.material("raw")
        guard let choice = try files.choose(files.read(), unlock: { try material.unlock($0) }) else { return }
        if case .slots = choice.keys { return try exchangeBySidecar(choice, pause) }
        let newKey = try DataKey(SecretBytes.random(count: CipherSettings.keyBytes))
        let salt = try Salt.random()
        try put(reencrypted(choice, newKey, salt))
        var sidecar = choice.sidecar.next(.ready)
        sidecar.epoch += 1
        sidecar.salt = salt
        try files.write(sidecar, dataKey: newKey)
    }

    /// The same for a store with slots, whose sidecar tells of each step.
    private func exchangeBySidecar(_ choice: AuthenticatedSidecar, _ pause: () throws -> Void) throws {
        let lockFile = try LockFile(path: path + "-lock", likeFile: path)
        let locks = try [LockByte.opening, .admin].map {
            try lockFile.lock($0, .exclusive, deadline: .now + .seconds(20))
        }
        defer { for lock in locks { lock.release() } }
        let journal = RotationJournal(databasePath: path, keys: choice.keys)
        let keys = try journal.begin(.newDataKey)
        let pages = try reencrypted(choice, keys.nextDataKey, keys.nextSalt)
        try journal.announceSwitch(pages: UInt32(pages.count / choice.sidecar.settings.pageBytes))
        try pause()
        try put(pages)
        try journal.complete()
    }

    /// Leaves a store with slots as a rotation does that dies when its sidecar says that it is switched. The caller has the
    /// locks `opening` and `admin`.
    package func announceSwitch() throws {
        let material = try TestKeys.material("raw")
        guard let choice = try files.choose(files.read(), unlock: { try material.unlock($0) }) else { return }
        let journal = RotationJournal(databasePath: path, keys: choice.keys)
        let keys = try journal.begin(.newDataKey)
        let pages = try reencrypted(choice, keys.nextDataKey, keys.nextSalt)
        try pages.write(to: URL(fileURLWithPath: path + "-rotating"))
        try journal.announceSwitch(pages: UInt32(pages.count / choice.sidecar.settings.pageBytes))
    }

    private func put(_ pages: Data) throws {
        try pages.write(to: URL(fileURLWithPath: path + "-rotating"))
        try FileAttributes(of: path)?.apply(to: FileDescriptor(opening: path + "-rotating", .readWrite))
        truncate(path + "-wal", 0)
        guard rename(path + "-rotating", path) == 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    /// The pages of file and log as one file under the new key.
    private func reencrypted(_ choice: AuthenticatedSidecar, _ newKey: DataKey, _ salt: Salt) throws -> Data {
        let settings = choice.sidecar.settings
        var old = try choice.dataKey.withSecret {
            try PageCodec(dataKey: $0, salt: choice.sidecar.salt.bytes, settings: settings)
        }
        var new = try newKey.withSecret { try PageCodec(dataKey: $0, salt: salt.bytes, settings: settings) }
        var pages = try Data(contentsOf: URL(fileURLWithPath: path))
        let log = (try? Data(contentsOf: URL(fileURLWithPath: path + "-wal"))) ?? Data()
        let pageBytes = settings.pageBytes
        let scan = try WALScan.scan(fileBytes: log.count) { offset, buffer in
            let count = max(0, min(buffer.count, log.count - offset))
            return count == 0 ? 0 : log.copyBytes(to: buffer, from: offset..<(offset + count))
        }
        if let scan, scan.committedFrames > 0 {
            let length = Int(scan.databasePages) * pageBytes
            if pages.count < length { pages.append(Data(count: length - pages.count)) }
            pages.removeLast(pages.count - length)
            for (page, frame) in scan.lastFrames where Int(page) * pageBytes <= length {
                let start = scan.pageOffset(ofFrame: frame)
                pages.replaceSubrange(
                    (Int(page) - 1) * pageBytes..<Int(page) * pageBytes, with: log[start..<(start + pageBytes)])
            }
        }
        try pages.withUnsafeMutableBytes { bytes in
            for number in 1...UInt32(bytes.count / pageBytes) {
                let start = (Int(number) - 1) * pageBytes
                let page = UnsafeMutableRawBufferPointer(rebasing: bytes[start..<(start + pageBytes)])
                guard old.verify(UnsafeRawBufferPointer(page), number: number) else {
                    throw CocoaError(.fileReadCorruptFile)
                }
                try old.decrypt(UnsafeRawBufferPointer(page), number: number, into: page)
                let plain = [UInt8](page)
                try plain.withUnsafeBytes { try new.encrypt($0, number: number, into: page) }
            }
        }
        return pages
    }
}
