from dra_driver.errors import DriverError, one_line


def test_texts_for_events_are_one_line_of_bounded_length() -> None:
    assert "a b c" == one_line(DriverError("a\n  b\tc\n"))
    assert 1024 == len(one_line(DriverError("x" * 5000)))
    assert one_line(DriverError("x" * 5000)).endswith("...")


def test_an_error_without_text_is_named() -> None:
    assert "KeyError" == one_line(KeyError())


def test_a_text_can_be_sent_whatever_is_in_it() -> None:
    assert "a ? b" == one_line(DriverError("a \ud800 b"))


def test_an_error_whose_text_fails_is_named() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    assert "SilentError" == one_line(SilentError())
