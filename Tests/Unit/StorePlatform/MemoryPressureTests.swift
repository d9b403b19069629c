import Foundation
import StorePlatform
import Testing

@Suite struct MemoryPressureTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func pressure(_ text: String) throws -> Double? {
        let file = folder.file("memory")
        try Data(text.utf8).write(to: URL(fileURLWithPath: file))
        return MemoryPressure.current(in: file)
    }

    @Test("the share of the last ten seconds is read, and anything else is no answer")
    func reading() throws {
        #expect(try pressure("some avg10=12.34 avg60=5.00 avg300=1.00 total=99\nfull avg10=1.00\n") == 12.34)
        #expect(try pressure("some avg10=0.00") == 0)
        for text in ["", "some", "full avg10=3.00", "some avg60=3.00", "some avg10=x"] {
            #expect(try pressure(text) == nil, "\(text)")
        }
        #expect(MemoryPressure.current(in: folder.file("none")) == nil)
    }
}
