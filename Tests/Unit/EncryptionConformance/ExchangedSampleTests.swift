import Foundation
import TestKit
import Testing

@testable import EncryptionConformance

/// A sample is made in a folder that another user may exchange, if everybody may write in TMPDIR.
@Suite struct ExchangedSampleTests {
    private let folder = TemporaryFolder()

    // Story: `conformance` removed its sample by the path of the folder, with a private folder that had got its name.
    @Test("a folder that gets the name of the sample's folder is left alone")
    func exchanged() throws {
        let (victim, away) = (folder.path("mine"), folder.path("away"))
        try FileManager.default.createDirectory(atPath: victim + "/sub", withIntermediateDirectories: true)
        try Data("thesis".utf8).write(to: URL(fileURLWithPath: victim + "/sub/thesis.txt"))
        let sample = try SampleStore()
        _ = try sample.place(sample.late)
        let place = sample.folder
        #expect(rename(place, away) == 0 && rename(victim, place) == 0)
        defer { try? FileManager.default.removeItem(atPath: place) }
        sample.remove()
        #expect(FileManager.default.contents(atPath: place + "/sub/thesis.txt") == Data("thesis".utf8))
        // The sample's own files are removed wherever their folder is.
        #expect(try FileManager.default.contentsOfDirectory(atPath: away) == [])
    }

    @Test("nothing of a sample stays")
    func removed() throws {
        let sample = try SampleStore()
        _ = try sample.place(sample.early)
        sample.remove()
        #expect(!FileManager.default.fileExists(atPath: sample.folder))
    }
}
