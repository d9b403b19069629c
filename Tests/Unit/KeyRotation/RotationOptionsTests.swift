import KeyRotation
import Testing

@Suite struct RotationOptionsTests {
    @Test("without a word said, long reads make the rotation give up after a minute, and a pause is a quarter second")
    func defaults() {
        let options = KeyRotation.Options()
        #expect(options.longReads == .giveUp(after: .seconds(60)))
        #expect(options.pauseBudget == .milliseconds(250))
        #expect(options.checksIntegrity)
    }
}
